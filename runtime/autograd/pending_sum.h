// SPDX-License-Identifier: Apache-2.0
// Gradients of leaves that lie on several devices and whose sum is still to be made, or to arrive.
#pragma once

#include <cstddef>
#include <functional>

#include "runtime/device/stream.h"
#include "runtime/tensor/intrusive.h"

namespace fanout {

/// Who wants the sum says how: whole, or piece by piece with what follows from a piece, which is faster.
class PendingSum : public RefCounted {
 public:
  /// Writes elements of parameters, and of what belongs to them, from gradients that are summed: queues on `stream`, a
  /// stream of their device, the update for bytes `begin` to `end` - 1 of the range that was asked for.
  using Update = std::function<void(StreamView stream, std::size_t begin, std::size_t end)>;

  /// Makes what is missing of the sum: the compute streams may use the gradients from now on.
  virtual void make() = 0;
  /// The same for the `bytes` bytes of gradients from `gradients` on, with the update of the parameters of the same
  /// places, whose writes are counted already. Copies of these parameters that are kept elsewhere are renewed. `update`
  /// may be called from several threads at once, for pieces that begin and end at multiples of 256 bytes, or with the
  /// range.
  virtual void make_and_update(const char* gradients, std::size_t bytes, const Update& update) = 0;
};

}  // namespace fanout
