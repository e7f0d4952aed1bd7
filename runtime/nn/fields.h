// SPDX-License-Identifier: Apache-2.0
// Finds members that a module has but its visit does not name. C++20 has no reflection, but the members of an aggregate
// can be counted (how many braces does it take?) and bound. Other structs are let pass: there the first forward reports
// a tensor left on the host, and backward a parameter that no visit named.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/device/error.h"
#include "runtime/nn/visit.h"

namespace fanout {
namespace detail {

inline constexpr std::size_t kMaxFields = 16;

// Converts to whatever a brace asks for.
struct AnyField {
  template <class T>
  operator T&() const noexcept;
  template <class T>
  operator T&&() const noexcept;
};

template <std::size_t>
using FieldAt = AnyField;

template <class Derived>
struct AnyBaseOf {
  template <class Base>
  requires(std::is_base_of_v<Base, Derived> && !std::same_as<Base, Derived>) operator Base() const noexcept;
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires {
    T{FieldAt<I>{}...};
  };
}

// Is T{before fields, {two fields}, after fields} valid?
template <class T, std::size_t... Before, std::size_t... After>
constexpr bool takes_pair(std::index_sequence<Before...>, std::index_sequence<After...>) {
  return requires {
    T{FieldAt<Before>{}..., {AnyField{}, AnyField{}}, FieldAt<After>{}...};
  };
}

// Braces around an array's elements may be left out, so each of them counts as a brace.
template <class T, std::size_t Count>
constexpr std::size_t brace_count() {
  if constexpr (Count == 0 || takes<T>(std::make_index_sequence<Count>{})) {
    return Count;
  } else {
    return brace_count<T, Count - 1>();
  }
}

template <class T, std::size_t Count, std::size_t At = 0>
constexpr bool has_array() {
  if constexpr (At + 2 > Count) {
    return false;
  } else {
    using Before = std::make_index_sequence<At>;
    constexpr bool pair_is_two = takes_pair<T>(Before{}, std::make_index_sequence<Count - At - 2>{}) &&
                                 !takes_pair<T>(Before{}, std::make_index_sequence<Count - At - 1>{});
    return pair_is_two || has_array<T, Count, At + 1>();
  }
}

// Number of members of T, 0 where they cannot be bound: no aggregate, a base class, a C array, too many.
template <class T>
constexpr std::size_t field_count() {
  if constexpr (!std::is_aggregate_v<T> || requires { T{AnyBaseOf<T>{}}; }) {
    return 0;
  } else {
    constexpr std::size_t count = brace_count<T, kMaxFields + 1>();
    if constexpr (count > kMaxFields || has_array<T, count>()) {
      return 0;
    } else {
      return count;
    }
  }
}

// References to the members of `value`, as a tuple.
template <class T>
constexpr auto fields(T& value) {
  constexpr std::size_t count = field_count<T>();
#define FANOUT_BIND(n, ...)        \
  else if constexpr (count == n) { \
    auto& [__VA_ARGS__] = value;   \
    return std::tie(__VA_ARGS__);  \
  }
  if constexpr (count == 0) {
    return std::tuple<>();
  }
  FANOUT_BIND(1, a)
  FANOUT_BIND(2, a, b)
  FANOUT_BIND(3, a, b, c)
  FANOUT_BIND(4, a, b, c, d)
  FANOUT_BIND(5, a, b, c, d, e)
  FANOUT_BIND(6, a, b, c, d, e, f)
  FANOUT_BIND(7, a, b, c, d, e, f, g)
  FANOUT_BIND(8, a, b, c, d, e, f, g, h)
  FANOUT_BIND(9, a, b, c, d, e, f, g, h, i)
  FANOUT_BIND(10, a, b, c, d, e, f, g, h, i, j)
  FANOUT_BIND(11, a, b, c, d, e, f, g, h, i, j, k)
  FANOUT_BIND(12, a, b, c, d, e, f, g, h, i, j, k, l)
  FANOUT_BIND(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  FANOUT_BIND(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  FANOUT_BIND(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  FANOUT_BIND(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
#undef FANOUT_BIND
}

// May T be named in a visit?
template <class T>
constexpr bool can_be_visited() {
  if constexpr (std::is_const_v<T>) {
    return false;
  } else if constexpr (std::same_as<T, Parameter> || std::same_as<T, Buffer> || std::same_as<T, Mode> || Module<T>) {
    return true;
  } else if constexpr (kIsOptional<T>) {
    return can_be_visited<typename T::value_type>();
  } else if constexpr (MemberRange<T>) {
    return can_be_visited<std::remove_reference_t<decltype(*std::declval<T&>().begin())>>();
  } else {
    return false;
  }
}

// The addresses of all tensors and modes on the way, with or without sizes.
class AddressVisitor final : public Visitor {
 public:
  std::vector<const void*> addresses;
  bool contains(const void* address) const {
    return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
  }

 private:
  void parameter(Parameter& member) override { addresses.push_back(&member); }
  void buffer(Buffer& member) override { addresses.push_back(&member); }
  void mode(Mode& member) override { addresses.push_back(&member); }
  void undefined(std::string_view, const Tensor& member) override { addresses.push_back(&member); }
};

template <class T>
std::string unvisited_in(T& member);

// " (fanout::Linear)" if `visited` lacks a tensor of this member, ": member 1 (...)" if the member itself leaves one
// out.
template <class Field>
std::string unvisited_field(Field& field, const AddressVisitor& visited) {
  if constexpr (can_be_visited<Field>()) {
    AddressVisitor part;
    part("", field);
    const bool complete = std::all_of(part.addresses.begin(), part.addresses.end(),
                                      [&](auto* address) { return visited.contains(address); });
    if (!complete) return " (" + demangled(typeid(Field)) + ")";
    if (const std::string inner = unvisited_in(field); !inner.empty()) return ": " + inner;
  }
  return {};
}

// "member 2 (fanout::Linear)" for each member of `module` that its visit leaves out, at any depth; empty if there is
// none.
template <Module M>
std::string unvisited_of_module(M& module) {
  std::string found;
  if constexpr (requires {
                  { module.unvisited() } -> std::convertible_to<std::string>;
                }) {
    found = module.unvisited();  // a module that hides the types of its parts
  } else {
    AddressVisitor visited;
    module.visit(visited);
    std::size_t number = 0;
    const auto inspect = [&](auto& field) {
      const std::string text = unvisited_field(field, visited);
      ++number;
      if (!text.empty()) found += (found.empty() ? "member " : ", member ") + std::to_string(number) + text;
    };
    std::apply([&](auto&... field) { (inspect(field), ...); }, fields(module));
  }
  return found;
}

template <class T>
std::string unvisited_in(T& member) {
  if constexpr (Module<T>) {
    return unvisited_of_module(member);
  } else if constexpr (kIsOptional<T>) {
    return member ? unvisited_in(*member) : std::string();
  } else if constexpr (MemberRange<T>) {
    std::size_t index = 0;
    for (auto& element : member) {
      if (const std::string inner = unvisited_in(element); !inner.empty())
        return "element " + std::to_string(index) + ": " + inner;
      ++index;
    }
  }
  return {};
}

}  // namespace detail

/// Which members of `module`, and of modules in it, hold tensors that no visit names: "member 2 (fanout::Linear)",
/// counted from 1; empty if there are none or if the members cannot be listed (structs with constructors, bases or C
/// arrays).
template <Module M>
std::string unvisited(const M& module) {
  return detail::unvisited_of_module(const_cast<M&>(module));
}

/// Throws InvalidArgument that names the module and the members if any are unvisited.
template <Module M>
void require_all_visited(const M& module) {
  if (const std::string members = unvisited(module); !members.empty()) {
    throw InvalidArgument(detail::demangled(typeid(M)) + ": its visit leaves out " + members +
                          "; name every member that holds tensors: member(\"name\", name)");
  }
}

}  // namespace fanout
