// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.h"

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

using Indices = std::vector<std::int64_t>;

/// Numbers in [low, rows + beyond), many of them several times.
Indices random_indices(std::int64_t n, std::int64_t rows, unsigned seed, std::int64_t outside = 0) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<std::int64_t> uniform(-outside, rows - 1 + outside);
  Indices indices(static_cast<std::size_t>(n));
  for (std::int64_t& index : indices) index = uniform(generator);
  return indices;
}

template <class T>
std::vector<T> taken(const std::vector<T>& table, const Indices& indices, MatrixSize size) {
  std::vector<T> rows;
  for (const std::int64_t index : indices) {
    for (std::int64_t c = 0; c < size.cols; ++c) {
      const bool valid = index >= 0 && index < size.rows;
      rows.push_back(valid ? table[static_cast<std::size_t>(index * size.cols + c)]
                           : std::numeric_limits<T>::quiet_NaN());
    }
  }
  return rows;
}

template <class T>
std::vector<T> added(std::vector<T> table, const Indices& indices, const std::vector<T>& values, T scale,
                     MatrixSize size) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= size.rows) continue;
    for (std::int64_t c = 0; c < size.cols; ++c) {
      table[static_cast<std::size_t>(indices[i] * size.cols + c)] +=
          scale * values[i * static_cast<std::size_t>(size.cols) + static_cast<std::size_t>(c)];
    }
  }
  return table;
}

}  // namespace

TEMPLATE_TEST_CASE("take_rows copies the rows that the indices name, aligned or not", "", float, double) {
  for (const MatrixSize size : matrix_sizes()) {
    for (const std::int64_t n : {0, 1, 5, 70}) {
      if (size.rows == 0) continue;
      const int shift = n == 5 ? 1 : 0;
      CAPTURE(size.rows, size.cols, n);
      const auto values = wild_values<TestType>(size.rows * size.cols, 3);
      const Indices indices = random_indices(n, size.rows, 7);
      const DeviceArray<TestType> table(values, shift);
      const DeviceArray<std::int64_t> at(indices);
      const auto y = DeviceArray<TestType>::unset(n * size.cols, shift);
      REQUIRE(take_rows(nullptr, y.data(), static_cast<const TestType*>(table.data()),
                        static_cast<const std::int64_t*>(at.data()), n, size.rows, size.cols) == cudaSuccess);
      require_same(y.to_host(), taken(values, indices, size));
    }
  }
}

TEMPLATE_TEST_CASE("take_rows gives NaN for an index outside the table and reads nothing there", "", float, double) {
  for (const MatrixSize size : {MatrixSize{3, 1}, MatrixSize{3, 4}, MatrixSize{2, 37}, MatrixSize{0, 8}}) {
    const auto values = small_integers<TestType>(size.rows * size.cols, 1);
    const std::int64_t far = std::int64_t{1} << 40;
    const Indices indices{0, -1, size.rows, 1, far, -far, size.rows - 1, std::numeric_limits<std::int64_t>::min()};
    const DeviceArray<TestType> table(values);
    const DeviceArray<std::int64_t> at(indices);
    const auto n = static_cast<std::int64_t>(indices.size());
    const auto y = DeviceArray<TestType>::unset(n * size.cols);
    REQUIRE(take_rows(nullptr, y.data(), static_cast<const TestType*>(table.data()),
                      static_cast<const std::int64_t*>(at.data()), n, size.rows, size.cols) == cudaSuccess);
    require_same(y.to_host(), taken(values, indices, size));
  }
}

TEMPLATE_TEST_CASE("add_rows adds in the order of the indices, bit by bit, and leaves out what is outside", "", float,
                   double) {
  for (const MatrixSize size : matrix_sizes()) {
    for (const std::int64_t n : {0, 1, 70, 300}) {
      CAPTURE(size.rows, size.cols, n);
      const auto start = random_values<TestType>(size.rows * size.cols, 1);
      const auto values = random_values<TestType>(n * size.cols, 2);
      // Few rows get most of the values.
      const Indices indices = random_indices(n, n == 300 ? std::min<std::int64_t>(size.rows, 3) : size.rows, 3, 1);
      const DeviceArray<TestType> table(start), there(values);
      const DeviceArray<std::int64_t> at(indices);
      REQUIRE(add_rows(nullptr, table.data(), static_cast<const std::int64_t*>(at.data()),
                       static_cast<const TestType*>(there.data()), TestType(1), n, size.rows,
                       size.cols) == cudaSuccess);
      require_same(table.to_host(), added(start, indices, values, TestType(1), size));
    }
  }
}

TEMPLATE_TEST_CASE("add_rows scales what it adds", "", float, double) {
  const MatrixSize size{5, 9};
  const auto start = small_integers<TestType>(45, 1), values = small_integers<TestType>(20 * 9, 2);
  const Indices indices = random_indices(20, 5, 3);
  const DeviceArray<TestType> table(start, 1), there(values, 3);
  const DeviceArray<std::int64_t> at(indices);
  REQUIRE(add_rows(nullptr, table.data(), static_cast<const std::int64_t*>(at.data()),
                   static_cast<const TestType*>(there.data()), TestType(-0.25), 20, 5, 9) == cudaSuccess);
  require_same(table.to_host(), added(start, indices, values, TestType(-0.25), size));
}

TEST_CASE("the order of additions is that of the indices where it changes the sum") {
  const DeviceArray<double> table(std::vector<double>{0, 0});
  const DeviceArray<std::int64_t> at(Indices{0, 1, 0, 1, 0, 1});
  const DeviceArray<double> values(std::vector<double>{1e16, 1, 1, 1e16, -1e16, -1e16});
  REQUIRE(add_rows(nullptr, table.data(), static_cast<const std::int64_t*>(at.data()),
                   static_cast<const double*>(values.data()), 1.0, 6, 2, 1) == cudaSuccess);
  require_same(table.to_host(), {0, 0});  // 1 is lost beside 1e16, before and after it
}

TEST_CASE("negative sizes of rows are refused") {
  float* const none = nullptr;
  const float* const no_values = nullptr;
  const std::int64_t* const no_indices = nullptr;
  CHECK(take_rows(nullptr, none, no_values, no_indices, -1, 1, 1) == cudaErrorInvalidValue);
  CHECK(take_rows(nullptr, none, no_values, no_indices, 1, -1, 1) == cudaErrorInvalidValue);
  CHECK(take_rows(nullptr, none, no_values, no_indices, 1, 1, -1) == cudaErrorInvalidValue);
  CHECK(add_rows(nullptr, none, no_indices, no_values, 1.0f, -1, 1, 1) == cudaErrorInvalidValue);
  CHECK(add_rows(nullptr, none, no_indices, no_values, 1.0f, 1, -1, 1) == cudaErrorInvalidValue);
  CHECK(add_rows(nullptr, none, no_indices, no_values, 1.0f, 1, 1, -1) == cudaErrorInvalidValue);
}

}  // namespace fanout::kernels
