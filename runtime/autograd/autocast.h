// SPDX-License-Identifier: Apache-2.0
// Whether matrix products of this thread are computed in bf16.
#pragma once

#include <optional>
#include <string>

#include "runtime/tensor/dtype.h"

namespace fanout {

namespace detail {
inline constinit thread_local std::optional<DType> autocast_of_thread;
}

/// The type in which matrix products of this thread multiply f32 operands; none outside an Autocast.
inline std::optional<DType> autocast_dtype() {
  return detail::autocast_of_thread;
}

/// Mixed precision until the end of the scope, as torch.autocast, for operators of this thread:
///  - matmul, linear and linear_relu take f32 operands as bf16, sum in f32 and return bf16;
///  - all other floating operators take bf16 operands as f32, and so return f32.
/// f64 operands stay what they are. Parameters stay f32, and so do their gradients. Backward uses the types of the
/// forward; it belongs outside the scope and is the same inside.
///
///   Tensor loss;
///   {
///     const Autocast autocast;
///     loss = cross_entropy(model(images), labels);
///   }
///   loss.backward();
///
/// A disabled one switches autocast off until the end of its scope. Scopes nest.
class Autocast {
 public:
  /// Throws InvalidArgument for another type than bf16.
  explicit Autocast(DType dtype = DType::bf16, bool enabled = true) : former_(detail::autocast_of_thread) {
    if (enabled && dtype != DType::bf16) {
      throw InvalidArgument("Autocast: products are computed in bf16, not in " + std::string(name(dtype)) +
                            "; leave it out to compute in the type of the operands");
    }
    detail::autocast_of_thread = enabled ? std::optional(dtype) : std::nullopt;
  }
  ~Autocast() { detail::autocast_of_thread = former_; }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<DType> former_;
};

}  // namespace fanout
