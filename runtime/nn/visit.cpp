// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/visit.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

const Tensor& as_trained_leaf(const Tensor& tensor) {
  if (tensor.dtype() == DType::bf16) {
    throw InvalidArgument(
        fmt::format("Parameter: {}; parameters are f32 or f64, so that small updates are not lost: convert the values "
                    "to f32 and run "
                    "the forward under Autocast, which multiplies in bf16",
                    tensor.text()));
  }
  tensor.set_requires_grad();
  gradient_sink(tensor).is_parameter = true;
  return tensor;
}

}  // namespace

Parameter::Parameter(const Shape& shape, DType dtype) : Tensor(as_trained_leaf(zeros(shape, dtype, Device::host()))) {}

Parameter::Parameter(const Tensor& values) : Tensor(as_trained_leaf(copied_to(values, values.device()))) {}

Buffer::Buffer(const Shape& shape, DType dtype) : Tensor(zeros(shape, dtype, Device::host())) {}

Buffer::Buffer(const Tensor& values) : Tensor(copied_to(values, values.device())) {}

std::string Visitor::path() const {
  std::string joined;
  for (std::size_t level = 0; level < depth_; ++level) {
    if (level > 0) joined += '.';
    const auto [text, number] = steps_[level];
    joined += text != nullptr ? std::string(text, number) : std::to_string(number);
  }
  return joined;
}

void Visitor::throw_too_deep() const {
  throw InvalidArgument(fmt::format("modules lie more than {} deep in each other: {}", kMaxDepth, path()));
}

void Visitor::undefined(std::string_view role, const Tensor&) {
  throw InvalidArgument(fmt::format(
      "{} \"{}\" has no sizes: its module was made by default; give the sizes to the constructor", role, path()));
}

std::string ModuleView::type_name() const {
  return detail::demangled(*type_);
}

std::string detail::demangled(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 ? text.get() : type.name();
}

}  // namespace fanout
