// SPDX-License-Identifier: Apache-2.0
// The structure of the replicas' outputs: recorded from the first, compared with the others.
#pragma once

#include <string>
#include <vector>

#include "runtime/parallel/gather.h"

namespace fanout::detail {

/// What a walk met, in order.
class Outline {
 public:
  /// `walk` goes through replica 0's value, which must outlive the outline.
  explicit Outline(const TensorWalk& walk);

  /// The tensors, in order.
  const std::vector<Tensor*>& tensors() const { return tensors_; }
  /// The tensors of another replica's value. Throws InvalidArgument where its structure is not the recorded one.
  std::vector<Tensor> matching_tensors(const TensorWalk& walk, const OutputOrigin& first,
                                       const OutputOrigin& other) const;

 private:
  struct Recording;
  struct Comparing;
  enum class Kind { tensor, structure, key, leaf };
  struct Item {
    Kind kind;
    std::size_t count;
    std::string key;
    const void* leaf;
  };

  std::vector<Item> items_;
  std::vector<Tensor*> tensors_;
};

}  // namespace fanout::detail
