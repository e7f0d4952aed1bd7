// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/state_dict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

constexpr std::string_view kWrapperPrefix = "module.";  // torch's DataParallel puts it before every name

// Every tensor under every name, each with its place in the graph.
std::vector<NamedTensor> members(const ModuleView& module) {
  struct Listing final : Visitor {
    void parameter(Parameter& member) override { found.push_back({path(), member}); }
    void buffer(Buffer& member) override { found.push_back({path(), member}); }
    std::vector<NamedTensor> found;
  } visitor;
  module.walk(visitor);
  return std::move(visitor.found);
}

class Comparison {
 public:
  Comparison(const std::vector<NamedTensor>& wanted, const StateDict& state) {
    for (const NamedTensor& entry : state) {
      if (!given_.emplace(entry.name, &entry.tensor).second) doubled_.push_back(entry.name);
    }
    std::unordered_map<std::string_view, const Tensor*> known;
    for (const NamedTensor& member : wanted) {
      known.emplace(member.name, &member.tensor);
      compare(member);
    }
    for (const NamedTensor& entry : state) {
      if (!known.contains(entry.name)) unexpected_.push_back(entry.name);
    }
  }

  bool names_agree() const { return missing_.empty() && unexpected_.empty() && doubled_.empty(); }
  bool agrees() const { return names_agree() && unlike_.empty(); }
  const Tensor& given(std::string_view name) const { return *given_.at(name); }

  std::string text() const {
    std::string text;
    const auto list = [&](std::string_view what, const std::vector<std::string>& names) {
      if (!names.empty()) text += fmt::format("\n  {}: {}", what, fmt::join(names, ", "));
    };
    list("missing", missing_);
    list("unexpected", unexpected_);
    list("given twice", doubled_);
    for (const std::string& line : unlike_) text += "\n  " + line;
    const bool wrapped =
        !unexpected_.empty() && std::all_of(unexpected_.begin(), unexpected_.end(), [](const auto& name) {
          return std::string_view(name).starts_with(kWrapperPrefix);
        });
    if (wrapped) {
      text += fmt::format(
          "\n  names that begin with \"{0}\" were saved from a wrapped module: where all of them do, "
          "remove_prefix(state, \"{0}\") takes it off",
          kWrapperPrefix);
    }
    return text;
  }

 private:
  void compare(const NamedTensor& member) {
    const auto found = given_.find(member.name);
    if (found == given_.end()) return missing_.push_back(member.name);
    const Tensor& value = *found->second;
    if (!value.defined() || !(value.shape() == member.tensor.shape()) || value.dtype() != member.tensor.dtype()) {
      unlike_.push_back(
          fmt::format("{}: {} in the state, {} in the module", member.name, value.text(), member.tensor.text()));
    }
  }

  std::unordered_map<std::string_view, const Tensor*> given_;
  std::vector<std::string> missing_, unexpected_, doubled_, unlike_;
};

bool goes_on_after(std::string_view name, std::string_view prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix);
}

bool is_wrapped(const StateDict& state) {
  return !state.empty() && std::all_of(state.begin(), state.end(), [](const NamedTensor& entry) {
    return goes_on_after(entry.name, kWrapperPrefix);
  });
}

void load(ModuleView module, const std::vector<NamedTensor>& wanted, const Comparison& comparison,
          std::string_view note) {
  if (!comparison.agrees()) {
    throw InvalidArgument(
        fmt::format("load_state_dict: the state{} is not one of {}:{}", note, module.type_name(), comparison.text()));
  }
  for (const NamedTensor& member : wanted) {
    const Tensor& value = comparison.given(member.name);
    if (value.raw_data() != member.tensor.raw_data()) copy(member.tensor, value);
  }
}

}  // namespace

StateDict state_dict(ModuleView module) {
  StateDict state = members(module);
  for (NamedTensor& entry : state) entry.tensor = entry.tensor.detach();
  return state;
}

LoadedState load_state_dict(ModuleView module, const StateDict& state) {
  const std::vector<NamedTensor> wanted = members(module);
  const Comparison comparison(wanted, state);
  if (!comparison.names_agree() && is_wrapped(state)) {
    const StateDict bare = remove_prefix(state, kWrapperPrefix);
    const Comparison without_prefix(wanted, bare);
    if (without_prefix.names_agree()) {
      load(module, wanted, without_prefix, fmt::format(" (its names without \"{}\")", kWrapperPrefix));
      return {.prefix_removed = true};
    }
  }
  load(module, wanted, comparison, "");
  return {};
}

StateDict add_prefix(const StateDict& state, std::string_view prefix) {
  StateDict renamed = state;
  for (NamedTensor& entry : renamed) entry.name.insert(0, prefix);
  return renamed;
}

StateDict remove_prefix(const StateDict& state, std::string_view prefix) {
  StateDict renamed = state;
  for (NamedTensor& entry : renamed) {
    if (!goes_on_after(entry.name, prefix)) {
      throw InvalidArgument(
          fmt::format("remove_prefix: \"{}\" does not begin with \"{}\"; a prefix is taken off all names or none",
                      entry.name, prefix));
    }
    entry.name.erase(0, prefix.size());
  }
  return renamed;
}

}  // namespace fanout
