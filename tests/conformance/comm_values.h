// SPDX-License-Identifier: Apache-2.0
// Tensors with known elements and the text of an error, for the tests of comm.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/device/error.h"
#include "runtime/tensor/copy.h"

namespace fanout::testing {

/// first, first + 1, … row-major, on `device`.
template <class T = float>
Tensor counting(const Shape& shape, Device device, std::type_identity_t<T> first = 0) {
  std::vector<T> values(static_cast<std::size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), first);
  const Tensor on_host = from_vector(values, shape);
  return device.is_host() ? on_host : copied_to(on_host, device);
}

/// The matrix seen with its dimensions exchanged.
inline Tensor transposed(const Tensor& matrix) {
  return strided_view(matrix, {matrix.shape()[1], matrix.shape()[0]}, {matrix.strides()[1], matrix.strides()[0]}, 0);
}
/// Columns 0, 2, 4, … of the matrix.
inline Tensor even_columns(const Tensor& matrix) {
  return strided_view(matrix, {matrix.shape()[0], matrix.shape()[1] / 2}, {matrix.strides()[0], 2}, 0);
}

/// The same elements without gaps, put together by the host alone from the whole matrix: element (r, c) is
/// r row_step + c column_step.
template <class T = float>
std::vector<T> by_rows(std::int64_t rows, std::int64_t columns, T row_step, T column_step) {
  std::vector<T> values;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      values.push_back(static_cast<T>(static_cast<T>(r) * row_step + static_cast<T>(c) * column_step));
    }
  }
  return values;
}

/// The text of what `call` throws, "" if it throws nothing of ours.
template <class Call>
std::string thrown_text(Call call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

}  // namespace fanout::testing
