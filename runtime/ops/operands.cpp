// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/device/context.h"

namespace fanout {
namespace {

std::string listed(std::initializer_list<const Tensor*> operands) {
  std::string text;
  for (const Tensor* operand : operands) text += (text.empty() ? "" : " and ") + operand->text();
  return text;
}

}  // namespace

void detail::throw_placement(std::string_view operation, std::initializer_list<const Tensor*> operands) {
  const auto any = [&](auto&& holds) { return std::any_of(operands.begin(), operands.end(), holds); };
  if (any([](const Tensor* operand) { return !operand->defined(); })) {
    throw InvalidArgument(fmt::format("{}: {}; an operand is missing", operation, listed(operands)));
  }
  if (any([](const Tensor* operand) { return operand->device().is_host(); })) {
    throw PlacementError(fmt::format(
        "{}: {}; operators run on devices only, and a tensor is on the host. If it belongs to a module: is it "
        "in its module's visit? did to(module, device) run? Data: to(tensor, device)",
        operation, listed(operands)));
  }
  std::string devices;
  for (auto operand = operands.begin(); operand != operands.end(); ++operand) {
    const auto is_there = [&](const Tensor* earlier) { return earlier->device() == (*operand)->device(); };
    if (std::any_of(operands.begin(), operand, is_there)) continue;
    devices += (devices.empty() ? "" : " and ") + (*operand)->device().name();
  }
  throw PlacementError(fmt::format("{}: tensors on {}; all must be on one device, and these are {}", operation, devices,
                                   listed(operands)));
}

void throw_operands(std::string_view operation, std::initializer_list<const Tensor*> operands, std::string_view rule) {
  throw InvalidArgument(fmt::format("{}: {}; {}", operation, listed(operands), rule));
}

Tensor widened(const Tensor& x) {
  return x.defined() && x.dtype() == DType::bf16 ? convert(x, DType::f32) : x;
}

Tensor narrowed(const Tensor& x) {
  return convert(x, *autocast_dtype());
}

void set_zero(const Tensor& tensor) {
  if (tensor.bytes() == 0) return;
  if (tensor.device().is_host()) {
    std::memset(tensor.raw_data(), 0, tensor.bytes());
    return;
  }
  const DeviceGuard guard(tensor.device());
  FANOUT_CHECK(cudaMemsetAsync(tensor.raw_data(), 0, tensor.bytes(), compute_stream(tensor.device()).handle));
}

}  // namespace fanout
