// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/embedding.h"

#include <fmt/format.h>

#include "runtime/nn/init.h"

namespace fanout {
namespace {

Shape table_shape(std::int64_t count, std::int64_t width) {
  if (count < 1 || width < 1) {
    throw InvalidArgument(fmt::format("Embedding({}, {}): count and width must be at least 1", count, width));
  }
  return {count, width};
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t width, EmbeddingOptions options)
    : weight(table_shape(count, width), options.dtype), sparse(options.sparse) {
  init::normal(weight, 0, 1);
}

}  // namespace fanout
