// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/module.h"

#include <unordered_map>
#include <unordered_set>

#include "runtime/nn/move.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

enum class Role : bool { parameter, buffer };

// Calls see(tensor, *this) for each tensor of one role, once.
template <class See>
class EachOnce final : public Visitor {
 public:
  EachOnce(Role role, See see) : role_(role), see_(see) {}
  using Visitor::path;

 private:
  void parameter(Parameter& member) override {
    if (role_ == Role::parameter) offer(member);
  }
  void buffer(Buffer& member) override {
    if (role_ == Role::buffer) offer(member);
  }
  void offer(const Tensor& tensor) {
    if (seen_.insert(&tensor.body()).second) see_(tensor, *this);
  }

  Role role_;
  See see_;
  std::unordered_set<const TensorBody*> seen_;
};

std::vector<Tensor> tensors(const ModuleView& module, Role role) {
  std::vector<Tensor> found;
  EachOnce visitor(role, [&](const Tensor& tensor, const auto&) { found.push_back(tensor); });
  module.walk(visitor);
  return found;
}

std::vector<NamedTensor> named_tensors(const ModuleView& module, Role role) {
  std::vector<NamedTensor> found;
  EachOnce visitor(role, [&](const Tensor& tensor, const auto& walk) { found.push_back({walk.path(), tensor}); });
  module.walk(visitor);
  return found;
}

// Gives each tensor's members a copy of it.
class Separating final : public Visitor {
  void parameter(Parameter& member) override {
    Tensor& own = own_[&member.body()];
    if (!own.defined()) {
      own = Parameter(static_cast<const Tensor&>(member));
      gradient_sink(own).visited = true;
      own.set_requires_grad(member.requires_grad());
    }
    static_cast<Tensor&>(member) = own;
  }
  void buffer(Buffer& member) override {
    Tensor& own = own_[&member.body()];
    if (!own.defined()) own = Buffer(static_cast<const Tensor&>(member));
    static_cast<Tensor&>(member) = own;
  }

  std::unordered_map<const TensorBody*, Tensor> own_;
};

}  // namespace

std::vector<Tensor> parameters(ModuleView module) {
  return tensors(module, Role::parameter);
}
std::vector<Tensor> buffers(ModuleView module) {
  return tensors(module, Role::buffer);
}
std::vector<NamedTensor> named_parameters(ModuleView module) {
  return named_tensors(module, Role::parameter);
}
std::vector<NamedTensor> named_buffers(ModuleView module) {
  return named_tensors(module, Role::buffer);
}

void zero_grad(ModuleView module) {
  struct Clearing final : Visitor {
    void parameter(Parameter& member) override {
      if (member.body().producer) {
        throw InvalidArgument(
            "zero_grad on a replica has no effect: its parameters belong to the module that was replicated; call "
            "zero_grad on that module");
      }
      member.clear_grad();
    }
  } visitor;
  module.walk(visitor);
}

void train(ModuleView module, bool on) {
  struct Setting final : Visitor {
    explicit Setting(bool training) : training_(training) {}
    void mode(Mode& member) override { member.training = training_; }
    bool training_;
  } visitor(on);
  module.walk(visitor);
}

void detail::separate(ModuleView copy) {
  Separating visitor;
  copy.walk(visitor);
  flatten(copy);
}

}  // namespace fanout
