// SPDX-License-Identifier: Apache-2.0
// Names of the calls, their text in reports, and when two ranks mean the same collective.
#include "sim/nccl/operation.h"

#include <array>
#include <cstdio>

#include "sim/nccl/report.h"
#include "sim/runtime/report.h"

namespace sim::nccl {

const char* name_of(Kind kind) {
  constexpr std::array<const char*, 7> kNames = {"Broadcast", "Reduce", "AllReduce", "ReduceScatter",
                                                 "AllGather", "Send",   "Recv"};
  return kNames.at(static_cast<std::size_t>(kind));
}

bool is_transfer(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}

bool has_root(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::reduce;
}

bool has_reduction(Kind kind) {
  return kind == Kind::reduce || kind == Kind::all_reduce || kind == Kind::reduce_scatter;
}

std::string describe(const Operation& operation) {
  const Kind kind = operation.kind;
  std::string text =
      std::string(name_of(kind)) + " of " + std::to_string(operation.count) + ' ' + type_name(operation.type);
  if (has_reduction(kind)) text += std::string(", ") + operation_name(operation.operation);
  if (has_root(kind)) text += ", root " + std::to_string(operation.root);
  if (kind == Kind::send) text += " to rank " + std::to_string(operation.root);
  if (kind == Kind::receive) text += " from rank " + std::to_string(operation.root);
  std::array<char, 40> stream;
  std::snprintf(stream.data(), stream.size(), ", stream %p", static_cast<void*>(operation.stream));
  text += stream.data();
  return operation.place.line == 0 ? text : text + ", called at " + place_text(operation.place);
}

bool agree(const Operation& a, const Operation& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type &&
         (!has_reduction(a.kind) || a.operation == b.operation) && (!has_root(a.kind) || a.root == b.root);
}

}  // namespace sim::nccl
