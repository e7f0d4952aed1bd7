// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/structure.h"

#include <fmt/format.h>

#include "runtime/device/error.h"

namespace fanout {

std::string TensorVisitor::path() const {
  std::string text(root_);
  for (std::size_t level = 0; level < depth_; ++level) {
    const Step& step = steps_[level];
    switch (step.kind) {
      case Step::Kind::name:
        text += fmt::format(".{}", step.view());
        break;
      case Step::Kind::index:
        text += fmt::format("[{}]", step.number);
        break;
      case Step::Kind::text_key:
        text += fmt::format("[\"{}\"]", step.view());
        break;
      case Step::Kind::other_key:
        text += "[...]";
    }
  }
  return text;
}

void TensorVisitor::throw_too_deep() const {
  throw InvalidArgument(fmt::format("values lie more than {} deep in each other: {}", kMaxDepth, path()));
}

std::string detail::path_of(const TensorWalk& walk, std::string_view root, std::size_t number) {
  struct Finding final : TensorVisitor {
    Finding(std::string_view start, std::size_t wanted) : TensorVisitor(start), left(wanted) {}
    void tensor(Tensor&, bool) override {
      if (left-- == 0) found = path();
    }
    std::size_t left;
    std::string found;
  } visitor(root, number);
  walk(visitor);
  return visitor.found;
}

}  // namespace fanout
