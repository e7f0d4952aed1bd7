// SPDX-License-Identifier: Apache-2.0
// A module with functions around its call.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/autograd/hook.h"
#include "runtime/nn/fields.h"
#include "runtime/nn/visit.h"

namespace fanout {

/// Calls `module` with hooks before and after it. Names pass through: state_dict, to and train see only the module.
///
///   Hooked<Linear> fc1{Linear(784, 512)};
///   HookHandle seen = fc1.after([&](Linear&, const Tensor& x, const Tensor& y) { rows += x.size(0); });
///   seen.remove();
///
/// `Signature` is how the module is called; the default is that of a layer. Hooks get the arguments, and those after
/// the call the result too, by reference: one that takes `Tensor& y` may put another tensor in its place. They run in
/// the order of their registration; one that is removed by its handle, at any time, runs no more.
///
/// A copy has copies of the hooks: a replica's hooks run on the replica's thread, with its device's tensors, and what a
/// replica adds or removes stays its own. A hook's captured references are shared by all replicas.
template <Module M, class Signature = Tensor(const Tensor&)>
class Hooked;

template <Module M, class Result, class... Arguments>
class Hooked<M, Result(Arguments...)> {
 public:
  using BeforeHook = std::function<void(M&, std::remove_cvref_t<Arguments>&...)>;
  using AfterHook = std::function<void(M&, std::remove_cvref_t<Arguments>&..., Result&)>;

  M module;

  explicit Hooked(M its_module) : module(std::move(its_module)) {}

  HookHandle before(BeforeHook hook) { return before_.add(std::move(hook)); }
  HookHandle after(AfterHook hook) { return after_.add(std::move(hook)); }

  void visit(Visitor& member) { module.visit(member); }
  Result operator()(Arguments... arguments) {
    if (before_.empty() && after_.empty()) return module(std::forward<Arguments>(arguments)...);
    return call(arguments...);
  }
  /// As fanout::unvisited.
  std::string unvisited() { return detail::unvisited_of_module(module); }

 private:
  // By value, so that hooks may change the arguments: tensors are handles.
  Result call(std::remove_cvref_t<Arguments>... arguments) {
    before_.for_each([&](const BeforeHook& hook) { hook(module, arguments...); });
    Result result = module(arguments...);
    after_.for_each([&](const AfterHook& hook) { hook(module, arguments..., result); });
    return result;
  }

  HookList<BeforeHook> before_;
  HookList<AfterHook> after_;
};

template <Module M>
Hooked(M) -> Hooked<M>;

}  // namespace fanout
