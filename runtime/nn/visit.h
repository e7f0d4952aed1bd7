// SPDX-License-Identifier: Apache-2.0
// What a module is: a copyable struct whose `visit` names its members, each of a type that says its role.
//
//   struct Mlp {
//     Linear fc1{784, 512}, fc2{512, 10};
//     void visit(Visitor& member) { member("fc1", fc1); member("fc2", fc2); }
//     Tensor operator()(const Tensor& images) { return fc2(relu(fc1(images))); }
//   };
//
// Copying a module copies handles: the copy shares parameters and buffers. clone(m) in module.h copies the values.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>

#include "runtime/autograd/node.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

/// A trained member: a leaf that requires a gradient. Starts on the host and goes to a device with its module, by to().
/// A copy is the same parameter: `out.weight = in.weight` ties the two. One made by default has no sizes yet, and
/// naming it in a visit is an error.
struct Parameter : Tensor {
  Parameter() = default;
  /// Zeros.
  explicit Parameter(const Shape& shape, DType dtype = DType::f32);
  /// Starts with a copy of `values`. Throws InvalidArgument unless they are f32 or f64.
  explicit Parameter(const Tensor& values);

  /// `weight = f(x)` would cut the parameter off from its optimizer: write elements with copy(weight, f(x)) instead.
  Parameter& operator=(const Tensor&) = delete;
};

/// A member that is kept and moved with the module but not trained, like running statistics.
struct Buffer : Tensor {
  Buffer() = default;
  /// Zeros.
  explicit Buffer(const Shape& shape, DType dtype = DType::f32);
  /// Starts with a copy of `values`.
  explicit Buffer(const Tensor& values);

  /// A new tensor would be lost on replicas and in the flat buffer: write elements with copy(mean, value) instead.
  Buffer& operator=(const Tensor&) = delete;
};

/// Whether a module trains or evaluates; set by train(m) and eval(m).
struct Mode {
  bool training = true;
  explicit operator bool() const { return training; }
};

class Visitor;

/// A struct with `void visit(Visitor& member)`.
template <class M>
concept Module = requires(M& module, Visitor& visitor) {
  module.visit(visitor);
};

namespace detail {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
concept MemberRange = requires(T& range) {
  range.begin() != range.end();
  *range.begin();
};

}  // namespace detail

/// Walks through the members of a module, and of modules in it. A concrete class, so that `visit` may stand in a local
/// class and be called through type erasure. Walking allocates nothing; the path is only put together when asked for.
class Visitor {
 public:
  virtual ~Visitor() = default;

  /// Called in a module's visit for each member, with the name it shall have in state_dict: a Parameter, a Buffer, a
  /// Mode, a module, or a vector, array or optional of these (elements are named 0, 1, ...). Throws InvalidArgument
  /// with the member's path for a tensor without sizes.
  template <class T>
  void operator()(std::string_view name, T& member) {
    enter({name.data(), name.size()});
    dispatch(member);
    --depth_;
  }
  /// The same for an element of a sequence.
  template <class T>
  void operator()(std::size_t index, T& member) {
    enter({nullptr, index});
    dispatch(member);
    --depth_;
  }

 protected:
  virtual void parameter(Parameter&) {}
  virtual void buffer(Buffer&) {}
  virtual void mode(Mode&) {}
  /// A parameter or buffer without sizes; the default throws.
  virtual void undefined(std::string_view role, const Tensor& member);

  /// Names from the walk's start to the current member, joined by dots: "layers.0.weight".
  std::string path() const;

 private:
  static constexpr std::size_t kMaxDepth = 32;

  // One part of a path: a name of `number` characters, or, without text, the index of an element.
  struct Step {
    const char* text;
    std::size_t number;
  };

  void enter(Step step) {
    if (depth_ == kMaxDepth) [[unlikely]]
      throw_too_deep();
    steps_[depth_++] = step;
  }
  [[noreturn]] void throw_too_deep() const;

  void accept(Parameter& member) {
    if (!member.defined()) [[unlikely]]
      return undefined("parameter", member);
    if (auto* sink = static_cast<GradientSink*>(member.body().sink.get()); sink && !sink->visited) sink->visited = true;
    parameter(member);
  }
  void accept(Buffer& member) {
    if (!member.defined()) [[unlikely]]
      return undefined("buffer", member);
    buffer(member);
  }
  void accept(Mode& member) { mode(member); }

  template <class T>
  void dispatch(T& member) {
    static_assert(
        !std::is_const_v<T>,
        "visit names a const member: make the member and visit itself non-const; const modules are still fine to use");
    if constexpr (std::same_as<T, Parameter> || std::same_as<T, Buffer> || std::same_as<T, Mode>) {
      accept(member);
    } else if constexpr (Module<T>) {
      member.visit(*this);
    } else if constexpr (detail::kIsOptional<T>) {
      if (member) dispatch(*member);
    } else if constexpr (detail::MemberRange<T>) {
      std::size_t index = 0;
      for (auto& element : member) (*this)(index++, element);
    } else {
      static_assert(!std::derived_from<T, Tensor>,
                    "visit names a plain Tensor: make it a Parameter if it is trained, a Buffer if it is only kept");
      static_assert(
          !std::is_pointer_v<T> &&
              !requires(T & pointer) {
                pointer.get();
                *pointer;
              },
          "visit names a pointer: a copy of the module would point into the original; hold the member itself");
      static_assert(
          std::derived_from<T, Tensor> || std::is_pointer_v<T> ||
              requires(T & pointer) {
                pointer.get();
                *pointer;
              },
          "a member named in visit is a Parameter, a Buffer, a Mode, a module (a struct with a public `void "
          "visit(Visitor&)`), or a vector, array or optional of these");
    }
  }

  std::array<Step, kMaxDepth> steps_;  // set below depth_
  std::size_t depth_ = 0;
};

/// Borrows a module of any type, so that functions over modules need not be templates. A const module is walked through
/// as well: its handles are shared anyway.
class ModuleView {
 public:
  template <Module M>
  ModuleView(const M& module)
      : module_(const_cast<M*>(&module)),
        visit_([](void* object, Visitor& visitor) { static_cast<M*>(object)->visit(visitor); }),
        type_(&typeid(M)) {}

  void walk(Visitor& visitor) const { visit_(module_, visitor); }
  /// The module's type as in the source, for messages.
  std::string type_name() const;

 private:
  void* module_;
  void (*visit_)(void*, Visitor&);
  const std::type_info* type_;
};

namespace detail {
/// The type as it is written in the source.
std::string demangled(const std::type_info& type);
}  // namespace detail

}  // namespace fanout
