// SPDX-License-Identifier: Apache-2.0
// Modules one after the other, of any types.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/nn/fields.h"
#include "runtime/nn/visit.h"

namespace fanout {

/// A module that turns one tensor into one tensor.
template <class M>
concept Layer = Module<M> && std::copyable<M> && requires(M& module, Tensor x) {
  { module(std::move(x)) } -> std::convertible_to<Tensor>;
};

/// Owns a layer whose type is hidden. Copying it copies the layer, that is, its handles.
class AnyLayer {
 public:
  template <class M>
  requires(!std::same_as<M, AnyLayer> && Layer<M>) AnyLayer(M module)
      : layer_(std::make_unique<Of<M>>(std::move(module))) {}
  AnyLayer(const AnyLayer& other) : layer_(other.layer_->copy()) {}
  AnyLayer(AnyLayer&&) noexcept = default;
  AnyLayer& operator=(AnyLayer other) noexcept {
    layer_ = std::move(other.layer_);
    return *this;
  }
  ~AnyLayer() = default;

  void visit(Visitor& member) { layer_->visit(member); }
  Tensor operator()(Tensor x) { return layer_->call(std::move(x)); }
  /// The layer, if its type is M, else null.
  template <class M>
  M* get_if() {
    return layer_->type() == typeid(M) ? &static_cast<Of<M>&>(*layer_).module : nullptr;
  }
  /// As fanout::unvisited.
  std::string unvisited() { return layer_->unvisited(); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> copy() const = 0;
    virtual void visit(Visitor& member) = 0;
    virtual Tensor call(Tensor x) = 0;
    virtual const std::type_info& type() const = 0;
    virtual std::string unvisited() = 0;
  };
  template <class M>
  struct Of final : Base {
    explicit Of(M its_module) : module(std::move(its_module)) {}
    std::unique_ptr<Base> copy() const override { return std::make_unique<Of>(module); }
    void visit(Visitor& member) override { module.visit(member); }
    Tensor call(Tensor x) override { return module(std::move(x)); }
    const std::type_info& type() const override { return typeid(M); }
    std::string unvisited() override { return detail::unvisited_of_module(module); }
    M module;
  };

  std::unique_ptr<Base> layer_;
};

/// Calls its layers in order; in state_dict they are named 0, 1, ... A Linear followed by a Relu runs as one
/// linear_relu.
class Sequential {
 public:
  // The first condition keeps copies out before Layer asks whether a Sequential can be copied.
  template <class... Layers>
  requires((sizeof...(Layers) != 1 || !(std::same_as<Layers, Sequential> && ...)) &&
           (Layer<Layers> && ...)) explicit Sequential(Layers... layers) {
    layers_.reserve(sizeof...(Layers));
    (layers_.emplace_back(std::move(layers)), ...);
  }

  void append(AnyLayer layer) { layers_.push_back(std::move(layer)); }
  std::size_t size() const { return layers_.size(); }
  /// Layer `index`. Throws std::out_of_range.
  AnyLayer& operator[](std::size_t index) { return layers_.at(index); }

  void visit(Visitor& member);
  Tensor operator()(Tensor x);
  /// As fanout::unvisited, over the layers.
  std::string unvisited() { return detail::unvisited_in(layers_); }

 private:
  std::vector<AnyLayer> layers_;
};

}  // namespace fanout
