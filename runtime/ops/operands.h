// SPDX-License-Identifier: Apache-2.0
// What every operator does with its operands first: checks, the rule of Autocast, and memory without gaps.
#pragma once

#include <initializer_list>
#include <string_view>

#include "runtime/autograd/autocast.h"
#include "runtime/ops/convert.h"
#include "runtime/tensor/copy.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

namespace detail {
[[noreturn]] void throw_placement(std::string_view operation, std::initializer_list<const Tensor*> operands);
}

/// Throws InvalidArgument "add: f32 [2, 3] on cuda:0 and f32 [4] on cuda:0; " and the rule that they break.
[[noreturn]] void throw_operands(std::string_view operation, std::initializer_list<const Tensor*> operands,
                                 std::string_view rule);

/// The device of the operands. Throws PlacementError where they are on the host or on several devices, InvalidArgument
/// for an undefined one.
template <class... Rest>
Device common_device(std::string_view operation, const Tensor& first, const Rest&... rest) {
  const bool usable = first.defined() && !first.device().is_host() &&
                      ((rest.defined() && rest.device() == first.device()) && ... && true);
  if (!usable) [[unlikely]]
    detail::throw_placement(operation, {&first, &rest...});
  return first.device();
}

// The rule of Autocast. An operator asks first, and calls itself with other operands where the answer is yes:
//   if (widens(x)) return gelu(widened(x));

/// For all operators but matrix products: true if the scope wants bf16 among these operands (which may be undefined)
/// to be f32.
template <class... Operands>
bool widens(const Operands&... operands) {
  const auto is_bf16 = [](const Tensor& operand) { return operand.defined() && operand.dtype() == DType::bf16; };
  return (is_bf16(operands) || ...) && autocast_dtype().has_value();
}
/// x in f32 if it is bf16, else x.
Tensor widened(const Tensor& x);

/// For matrix products: true if the scope wants f32 among these operands (which may be undefined) to be bf16; not
/// beside other types than these two.
template <class... Operands>
bool narrows(const Operands&... operands) {
  if (!autocast_dtype()) return false;
  const auto is = [](const Tensor& operand, DType dtype) { return operand.defined() && operand.dtype() == dtype; };
  return ((!operands.defined() || is(operands, DType::f32) || is(operands, DType::bf16)) && ...) &&
         (is(operands, DType::f32) || ...);
}
/// x in the scope's type.
Tensor narrowed(const Tensor& x);

/// A tensor without gaps: itself where it has none, else a copy. Refers to the tensor, so not for temporaries.
class Packed {
 public:
  explicit Packed(const Tensor& x)
      : copy_(x.is_contiguous() ? Tensor() : contiguous_copy(x)), tensor_(copy_.defined() ? copy_ : x) {}
  Packed(const Tensor&&) = delete;
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }

 private:
  Tensor copy_;
  const Tensor& tensor_;
};

/// Zeros in all elements of a contiguous tensor.
void set_zero(const Tensor& tensor);

}  // namespace fanout
