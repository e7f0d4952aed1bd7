// SPDX-License-Identifier: Apache-2.0
// Several devices against one: outputs, gradients and an optimizer's step, for every number of devices and rows.
#include <catch2/catch.hpp>

#include "runtime/autograd/backward.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

/// A fresh module on one device, and the same one wrapped over `ids`.
struct Twins {
  explicit Twins(const std::vector<int>& ids, const DataParallelOptions& options = {})
      : primary(ids[0]), alone(seeded_on<Net>(primary)), wrapped(clone(alone)), parallel(wrapped, ids, options) {}

  Device primary;
  Net alone, wrapped;
  DataParallel<Net> parallel;
};

// A sum over the rows, which is 0 for none of them.
Tensor loss_of(const Tensor& output) {
  return sum(square(output - 0.5));
}

void require_equal_step(Twins& twins, std::int64_t rows, Device home) {
  const Tensor x = leaf_on(twins.primary, numbers({rows, 6})), y = leaf_on(home, x);
  const Tensor expected = twins.alone(x), output = twins.parallel(y);
  REQUIRE(output.device() == twins.primary);
  REQUIRE(difference(output, expected) < kTolerance);
  loss_of(expected).backward();
  loss_of(output).backward();
  REQUIRE(gradient_difference(twins.alone, twins.wrapped) < kTolerance);
  REQUIRE(y.grad().device() == home);
  REQUIRE(largest_difference(values_of(y.grad()), values_of(x.grad())) < kTolerance);
}

template <class Optimizer>
void require_equal_parameters(Twins& twins, Optimizer alone, Optimizer wrapped) {
  alone.step();
  wrapped.step();
  const std::vector<Tensor> expected = parameters(twins.alone), actual = parameters(twins.wrapped);
  for (std::size_t index = 0; index < expected.size(); ++index) {
    REQUIRE(difference(actual[index], expected[index]) < kTolerance);
  }
}

std::vector<std::vector<int>> lists_of_ids() {
  std::vector<std::vector<int>> lists{{2, 0, 1}, {1, 0}, {3, 1}, {7}, {5, 2, 7, 0}, {7, 6, 5, 4, 3, 2, 1, 0}};
  for (int count = 1; count <= 8; ++count) {
    lists.emplace_back();
    for (int index = 0; index < count; ++index) lists.back().push_back(index);
  }
  return lists;
}

}  // namespace

TEST_CASE("0 to 17 rows on 1 to 8 devices, ids in any order, give one device's outputs, gradients and steps") {
  for (const std::vector<int>& ids : lists_of_ids()) {
    for (std::int64_t rows = 0; rows <= 17; ++rows) {
      INFO(rows << " rows on " << names(devices_of(ids)));
      Twins twins(ids);
      require_equal_step(twins, rows, rows % 2 == 0 ? Device::host() : Device(static_cast<int>(rows % 8)));
      const SgdOptions sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
      require_equal_parameters(twins, Sgd(parameters(twins.alone), sgd), Sgd(parameters(twins.wrapped), sgd));
    }
  }
}

TEST_CASE("replicas beside each other, in few or many buckets, give one device's outputs, gradients and Adam steps") {
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20}) {
      for (const std::int64_t rows : {1, 5, 9, 17}) {
        DataParallelOptions options;
        options.parallel_apply = mode;
        options.bucket_bytes = bucket_bytes;
        Twins twins({2, 0, 1, 5}, options);
        require_equal_step(twins, rows, Device(3));
        require_equal_parameters(twins, Adam(parameters(twins.alone)), Adam(parameters(twins.wrapped)));
      }
    }
  }
}

TEST_CASE("one wrapper takes batches of changing sizes one after another and stays equal to one device") {
  Twins twins({3, 1, 0, 2});
  Sgd alone(parameters(twins.alone), {.learning_rate = 0.05}),
      wrapped(parameters(twins.wrapped), {.learning_rate = 0.05});
  for (const std::int64_t rows : {17, 1, 8, 0, 9, 3, 16, 2, 0, 13}) {
    INFO(rows << " rows");
    alone.zero_grad();
    wrapped.zero_grad();
    require_equal_step(twins, rows, Device::host());
    alone.step();
    wrapped.step();
  }
  CHECK(difference(twins.wrapped.first.weight, twins.alone.first.weight) < kTolerance);
}
