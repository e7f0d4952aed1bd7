// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/outline.h"

#include <fmt/format.h>

#include "runtime/device/error.h"

namespace fanout::detail {

struct Outline::Recording final : TensorVisitor {
  explicit Recording(Outline& outline) : TensorVisitor("output"), owner(outline) {}

  void tensor(Tensor& tensor, bool) override {
    owner.items_.push_back({Kind::tensor, 0, {}, nullptr});
    owner.tensors_.push_back(&tensor);
  }
  void structure(std::size_t count) override { owner.items_.push_back({Kind::structure, count, {}, nullptr}); }
  void key(const Step& step) override { owner.items_.push_back({Kind::key, 0, text_of(step), nullptr}); }
  void leaf(const void* value, bool (*)(const void*, const void*)) override {
    owner.items_.push_back({Kind::leaf, 0, {}, value});
  }

  static std::string text_of(const Step& step) {
    switch (step.kind) {
      case Step::Kind::index:
        return fmt::format("{}", step.number);
      case Step::Kind::other_key:
        return {};
      default:
        return fmt::format("\"{}\"", step.view());
    }
  }

  Outline& owner;
};

struct Outline::Comparing final : TensorVisitor {
  Comparing(const Outline& outline, const OutputOrigin& of_first, const OutputOrigin& of_other)
      : TensorVisitor("output"), owner(outline), first(of_first), other(of_other) {}

  void tensor(Tensor& tensor, bool) override {
    (void)next();
    found.push_back(tensor);
  }
  void structure(std::size_t count) override {
    const std::size_t expected = next().count;
    if (count != expected)
      refuse(fmt::format("has {} {}", expected, expected == 1 ? "element" : "elements"), fmt::format("{}", count));
  }
  void key(const Step& step) override {
    const std::string& expected = next().key;
    const std::string key = Recording::text_of(step);
    if (key != expected) refuse("has key " + expected, key);
  }
  void leaf(const void* value, bool (*equal)(const void*, const void*)) override {
    const Item& expected = next();
    if (equal == nullptr || equal(expected.leaf, value)) return;
    throw InvalidArgument(fmt::format(
        "gather: {} differs between replica {} on {} and replica {} on {}; only tensors are joined: return a tensor",
        path(), first.replica, first.device.name(), other.replica, other.device.name()));
  }

  const Item& next() { return owner.items_[position++]; }
  [[noreturn]] void refuse(const std::string& expected, const std::string& given) const {
    throw InvalidArgument(fmt::format(
        "gather: {} {} in replica {} on {} and {} in replica {} on {}; all replicas must return the same structure",
        path(), expected, first.replica, first.device.name(), given, other.replica, other.device.name()));
  }

  const Outline& owner;
  const OutputOrigin& first;
  const OutputOrigin& other;
  std::size_t position = 0;
  std::vector<Tensor> found;
};

Outline::Outline(const TensorWalk& walk) {
  Recording visitor(*this);
  walk(visitor);
}

std::vector<Tensor> Outline::matching_tensors(const TensorWalk& walk, const OutputOrigin& first,
                                              const OutputOrigin& other) const {
  Comparing visitor(*this, first, other);
  walk(visitor);
  return std::move(visitor.found);
}

}  // namespace fanout::detail
