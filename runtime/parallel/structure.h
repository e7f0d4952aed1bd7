// SPDX-License-Identifier: Apache-2.0
// The tensors inside a value: of tuples, arrays, vectors, maps, optionals, variants and structs, nested to any depth.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/nn/fields.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

class TensorVisitor;

/// Marks, as an argument or anywhere inside one, what every replica gets whole instead of a chunk of it. Its tensors
/// are copied to the replicas' devices; their gradients are summed in replica order. Reads as the value itself.
template <class T>
struct Unsplit {
  T value;
  operator const T&() const { return value; }
};
template <class T>
Unsplit<T> unsplit(T value) {
  return {std::move(value)};
}

namespace detail {

template <class T>
inline constexpr bool kIsUnsplit = false;
template <class T>
inline constexpr bool kIsUnsplit<Unsplit<T>> = true;
template <class T>
inline constexpr bool kIsVariant = false;
template <class... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;

template <class T>
concept IsTensor = std::derived_from<T, Tensor>;
template <class T>
concept NamesItsTensors = requires(T& value, TensorVisitor& visitor) {
  value.visit(visitor);
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept RangeLike = requires(T& value) {
  typename T::value_type;
  value.begin() != value.end();
}
&&!std::same_as<typename T::value_type, T>;
template <class T>
concept MapLike = RangeLike<T> && requires {
  typename T::mapped_type;
};

/// May a value of type T hold tensors that a walk finds?
template <class T>
constexpr bool holds_tensors() {
  if constexpr (IsTensor<T> || NamesItsTensors<T>) {
    return true;
  } else if constexpr (kIsUnsplit<T>) {
    return holds_tensors<decltype(T::value)>();
  } else if constexpr (kIsOptional<T>) {
    return holds_tensors<typename T::value_type>();
  } else if constexpr (MapLike<T>) {
    return holds_tensors<typename T::mapped_type>();
  } else if constexpr (RangeLike<T>) {
    return holds_tensors<typename T::value_type>();
  } else if constexpr (kIsVariant<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (holds_tensors<std::variant_alternative_t<I, T>>() || ...);
    }
    (std::make_index_sequence<std::variant_size_v<T>>{});
  } else if constexpr (TupleLike<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (holds_tensors<std::tuple_element_t<I, T>>() || ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
  } else {
    return false;
  }
}

/// Is T a struct with a member that holds tensors, but without a `visit` that names them?
template <class T>
constexpr bool hides_tensors() {
  if constexpr (holds_tensors<T>() || !std::is_class_v<T> || !std::is_aggregate_v<T>) {
    return false;
  } else if constexpr (field_count<T>() == 0) {
    return false;
  } else {
    using Fields = decltype(fields(std::declval<T&>()));
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return ((holds_tensors<std::remove_reference_t<std::tuple_element_t<I, Fields>>>() ||
               hides_tensors<std::remove_reference_t<std::tuple_element_t<I, Fields>>>()) ||
              ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Fields>>{});
  }
}

/// Can two values of type T be compared? Containers always claim it, so it is asked of what they hold.
template <class T>
constexpr bool comparable() {
  if constexpr (!std::equality_comparable<T>) {
    return false;
  } else if constexpr (RangeLike<T> || kIsOptional<T>) {
    return comparable<std::remove_cv_t<typename T::value_type>>();
  } else if constexpr (TupleLike<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (comparable<std::remove_cvref_t<std::tuple_element_t<I, T>>>() && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
  } else {
    return true;
  }
}

}  // namespace detail

/// Walks through the tensors of a value. A struct of tensors takes part by naming its members:
///
///   struct Prediction {
///     Tensor logits;
///     std::vector<Tensor> aux;
///     void visit(TensorVisitor& member) { member("logits", logits); member("aux", aux); }
///   };
///
/// The walk goes through tuples, pairs and arrays by position, through maps by key, through what optionals and variants
/// hold. Pointers are not followed. Anything else is a leaf. Walking allocates nothing.
class TensorVisitor {
 public:
  virtual ~TensorVisitor() = default;

  /// Called in a struct's visit for each member.
  template <class T>
  void operator()(std::string_view name, T& member) {
    enter({Step::Kind::name, name.data(), static_cast<std::int64_t>(name.size())});
    walk(member);
    --depth_;
  }

  /// Goes through `value`, at the current place.
  template <class T>
  void walk(T& value);

 protected:
  // One part of a path: a member's name or a text key of `number` characters, an index, or a key without text.
  struct Step {
    enum class Kind : unsigned char { name, index, text_key, other_key };
    Kind kind;
    const char* text;
    std::int64_t number;

    std::string_view view() const { return {text, static_cast<std::size_t>(number)}; }
  };

  /// `root` begins every path.
  explicit TensorVisitor(std::string_view root) : root_(root) {}

  /// A tensor; `whole` inside an Unsplit.
  virtual void tensor(Tensor& tensor, bool whole) = 0;
  /// A range or map of `count` elements, an optional with or without a value, a variant that holds its `count`-th
  /// alternative.
  virtual void structure(std::size_t /*count*/) {}
  /// The next element's key in a map.
  virtual void key(const Step&) {}
  /// Something without tensors; `equal` compares two of its type, null where they cannot be compared.
  virtual void leaf(const void* /*value*/, bool (* /*equal*/)(const void*, const void*)) {}

  /// Where the walk is: `output.aux[1]`.
  std::string path() const;

 private:
  static constexpr std::size_t kMaxDepth = 32;

  void enter(Step step) {
    if (depth_ == kMaxDepth) [[unlikely]]
      throw_too_deep();
    steps_[depth_++] = step;
  }
  [[noreturn]] void throw_too_deep() const;

  template <class T>
  void element(std::size_t index, T& value) {
    enter({Step::Kind::index, nullptr, static_cast<std::int64_t>(index)});
    walk(value);
    --depth_;
  }
  template <class Key>
  static Step key_step(const Key& key) {
    if constexpr (std::convertible_to<const Key&, std::string_view>) {
      const std::string_view text = key;
      return {Step::Kind::text_key, text.data(), static_cast<std::int64_t>(text.size())};
    } else if constexpr (std::integral<Key> || std::is_enum_v<Key>) {
      return {Step::Kind::index, nullptr, static_cast<std::int64_t>(key)};
    } else {
      return {Step::Kind::other_key, nullptr, 0};
    }
  }
  template <class T>
  void walk_map(T& map);
  template <class T>
  void walk_leaf(T& value);

  std::string_view root_;
  std::array<Step, kMaxDepth> steps_;  // set below depth_
  std::size_t depth_ = 0;
  int whole_ = 0;
};

template <class T>
void TensorVisitor::walk_map(T& map) {
  structure(map.size());
  for (auto& [name, value] : map) {
    const Step step = key_step(name);
    key(step);
    enter(step);
    walk(value);
    --depth_;
  }
}

template <class T>
void TensorVisitor::walk_leaf(T& value) {
  static_assert(!detail::hides_tensors<T>(),
                "a struct with tensors inside needs `void visit(fanout::TensorVisitor& member)` that names them: "
                "member(\"logits\", logits)");
  if constexpr (detail::comparable<std::remove_cv_t<T>>()) {
    leaf(&value, [](const void* a, const void* b) { return *static_cast<const T*>(a) == *static_cast<const T*>(b); });
  } else {
    leaf(&value, nullptr);
  }
}

template <class T>
void TensorVisitor::walk(T& value) {
  if constexpr (detail::IsTensor<T>) {
    tensor(value, whole_ > 0);
  } else if constexpr (!detail::holds_tensors<T>()) {
    walk_leaf(value);
  } else if constexpr (detail::NamesItsTensors<T>) {
    value.visit(*this);
  } else if constexpr (detail::kIsUnsplit<T>) {
    ++whole_;
    walk(value.value);
    --whole_;
  } else if constexpr (detail::kIsOptional<T>) {
    structure(value ? 1 : 0);
    if (value) walk(*value);
  } else if constexpr (detail::kIsVariant<T>) {
    structure(value.index());
    std::visit([this](auto& held) { this->walk(held); }, value);
  } else if constexpr (detail::MapLike<T>) {
    walk_map(value);
  } else if constexpr (detail::TupleLike<T>) {  // before ranges: an array has a fixed size
    std::size_t index = 0;
    std::apply([&](auto&... elements) { (element(index++, elements), ...); }, value);
  } else {
    static_assert(!std::ranges::view<T>, "a view does not own its tensors: pass a vector");
    structure(static_cast<std::size_t>(std::ranges::distance(value)));
    std::size_t index = 0;
    for (auto& held : value) element(index++, held);
  }
}

/// Walks some value with the visitor that it is given: a value of any type, behind one type.
using TensorWalk = std::function<void(TensorVisitor&)>;

/// Calls f(Tensor&) for each tensor of `value`, in the order of the walk.
template <class T, class F>
void for_each_tensor(T& value, F f) {
  struct Calling final : TensorVisitor {
    explicit Calling(F& function) : TensorVisitor(""), f(function) {}
    void tensor(Tensor& found, bool) override { f(found); }
    F& f;
  } visitor(f);
  visitor.walk(value);
}

namespace detail {
/// The path of tensor `number` of a walk that begins at `root`.
std::string path_of(const TensorWalk& walk, std::string_view root, std::size_t number);
}  // namespace detail

}  // namespace fanout
