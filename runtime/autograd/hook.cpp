// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/hook.h"

#include <fmt/format.h>

#include "runtime/autograd/node.h"
#include "runtime/autograd/node_hooks.h"

namespace fanout {
namespace {

void require_alike(std::string_view node, const Tensor& changed, const Tensor& gradient) {
  if (changed.shape() == gradient.shape() && changed.dtype() == gradient.dtype() &&
      changed.device() == gradient.device()) {
    return;
  }
  throw InvalidArgument(
      fmt::format("register_hook: a hook on a gradient of {} got {} and returned {}; shape, dtype and device must "
                  "agree (an undefined tensor leaves the gradient as it is)",
                  node, gradient.text(), changed.text()));
}

}  // namespace

NodeHooks::Slot& NodeHooks::slot(int number) {
  if (const Slot* found = find(number)) return const_cast<Slot&>(*found);
  return slots_.emplace_back(Slot{number, {}, nullptr});
}

const NodeHooks::Slot* NodeHooks::find(int number) const {
  for (const Slot& slot : slots_) {
    if (slot.number == number) return &slot;
  }
  return nullptr;
}

void Node::DeleteHooks::operator()(NodeHooks* hooks) const {
  delete hooks;
}

NodeHooks& Node::hooks() {
  if (!hooks_) hooks_.reset(new NodeHooks);
  return *hooks_;
}

bool Node::is_observed(int slot) const {
  const NodeHooks::Slot* const found = hooks_->find(slot);
  return found != nullptr && (found->captured != nullptr || !found->hooks.empty());
}

bool Node::is_captured(int slot) const {
  const NodeHooks::Slot* const found = hooks_ ? hooks_->find(slot) : nullptr;
  return found != nullptr && found->captured != nullptr;
}

void Node::run_hooks(int slot, Tensor& gradient) {
  const NodeHooks::Slot* const found = hooks_->find(slot);
  if (found == nullptr || !gradient.defined()) return;
  found->hooks.for_each([&](const TensorHook& hook) {
    const Tensor changed = hook(gradient);
    if (!changed.defined()) return;
    require_alike(name(), changed, gradient);
    gradient = changed;
  });
  if (found->captured != nullptr) *found->captured = gradient;
}

HookHandle register_hook(const Tensor& tensor, TensorHook hook) {
  if (!tracked(tensor)) {
    throw InvalidArgument(fmt::format(
        "register_hook: {} requires no gradient, so the hook would never run; use set_requires_grad on a leaf",
        tensor.text()));
  }
  const TensorBody& body = tensor.body();
  if (!body.producer) return gradient_sink(tensor).hooks().slot(0).hooks.add(std::move(hook));
  return static_cast<Node&>(*body.producer).hooks().slot(body.slot).hooks.add(std::move(hook));
}

}  // namespace fanout
