// SPDX-License-Identifier: Apache-2.0
#include "sim/runtime/protection.h"

#include <ucontext.h>

#include <csignal>
#include <cstdint>
#include <string>

#include "sim/runtime/code_places.h"
#include "sim/runtime/report.h"

namespace sim::protection {
namespace {

using Sigaction = struct sigaction;
Sigaction before{};

// What the faulting instruction did and where it is, as far as the processor says.
struct Instruction {
  const char* verb = "touches";
  const void* code = nullptr;
};

Instruction instruction_of([[maybe_unused]] const void* context) {
  Instruction found;
#if defined(__x86_64__)
  const auto* const registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  constexpr long long kWasWrite = 2;
  found.verb = registers[REG_ERR] & kWasWrite ? "writes" : "reads";
  found.code = reinterpret_cast<const void*>(registers[REG_RIP] + 1);
#elif defined(__aarch64__)
  found.code = reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc + 1);
#endif
  return found;
}

std::string memory_text(const void* pointer) {
  const std::string history = objects::history(pointer);
  return history.empty() ? "which is not allocated" : history;
}

// "4 bytes behind the end of ...": where somebody has written behind the block; empty if nobody has.
std::string written_behind(const Block& block) {
  const BlockPool* const pool = block.span->pool.load(std::memory_order_acquire);
  const char* const written = pool == nullptr ? nullptr : pool->written_behind(block);
  if (written == nullptr) return {};
  const std::ptrdiff_t offset = written - (block.start + block.bytes);
  return std::to_string(offset) + " bytes behind the end of " + objects::history(block.start);
}

// The signal comes from the program's own access, so this thread is inside no function that cannot be entered again.
void explain(int signal, siginfo_t* info, void* context) {
  const void* const pointer = info->si_addr;
  if (owner_of(pointer) == 0) {
    sigaction(signal, &before, nullptr);  // the access is made again, and is somebody else's
    return;
  }
  const Instruction instruction = instruction_of(context);
  const std::string where = code_text(instruction.code);
  const auto owner = static_cast<int>(arena_index(pointer));
  const int runs = this_thread.running_device;
  if (runs >= 0) {
    stop("work of cuda:%d, queued at %s, %s memory of cuda:%d %s, at %p (%s); its device cannot reach that", runs,
         place_text(this_thread.launched_at).c_str(), instruction.verb, owner, where.c_str(), pointer,
         memory_text(pointer).c_str());
  }
  stop(
      "the host %s memory of cuda:%d %s, at %p (%s), after this call; device memory is not the host's to touch, "
      "cudaMemcpy moves it",
      instruction.verb, owner, where.c_str(), pointer, memory_text(pointer).c_str());
}

}  // namespace

void start() {
  Sigaction action{};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before);
}

std::uint32_t reach_of(const Device& device) {
  std::uint32_t reach = 1u << device.index | device.peers.load(std::memory_order_acquire);
  for (const auto& other : machine->devices) {
    std::lock_guard guard(other->pools_mutex);
    for (const Pool* pool : other->pools) {
      if (pool->readable.load(std::memory_order_acquire) >> device.index & 1) reach |= 1u << other->index;
    }
  }
  return reach;
}

std::uint32_t owner_of(const void* pointer) {
  const std::uintptr_t arena = arena_index(pointer);
  return arena + 1 < arena_count ? 1u << arena : 0;
}

void Opened::open() const {
  for (const auto& device : machine->devices) {
    if (devices_ >> device->index & 1) device->arena.open();
  }
}

void Opened::close() const {
  for (const auto& device : machine->devices) {
    if (devices_ >> device->index & 1) device->arena.close();
  }
}

Block written_block(const Access& access) {
  return access.write && owner_of(access.pointer) != 0 ? find_block(access.pointer) : Block{};
}

void check_end(const char* operation, const Block& block) {
  const std::string written = written_behind(block);
  if (written.empty()) return;
  stop("%s on cuda:%d, queued at %s, has written %s", operation, this_thread.running_device,
       place_text(this_thread.launched_at).c_str(), written.c_str());
}

void check_before_free(const Block& block) {
  if (!block) return;
  const std::string written = written_behind(block);
  if (!written.empty()) stop("something before the free has written %s", written.c_str());
}

}  // namespace sim::protection
