// SPDX-License-Identifier: Apache-2.0
// The switch leaves by a jump and not by a return: a return to an address that no call pushed spoils the processor's
// return predictor, and every later return pays for it (twice the time in a kernel with two barriers).
#include "sim/device/stack_switch.h"

#include <cstdint>

#if defined(__x86_64__)

asm(R"(
.text
.p2align 4
.globl fanout_sim_switch_stack
.hidden fanout_sim_switch_stack
.type fanout_sim_switch_stack, @function
fanout_sim_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size fanout_sim_switch_stack, .-fanout_sim_switch_stack
)");

static constexpr int kAddressWord = 6;  // below it six registers, above it a null return address for `entry`
static constexpr int kFrameWords = 8;

#elif defined(__aarch64__)

asm(R"(
.text
.p2align 4
.globl fanout_sim_switch_stack
.hidden fanout_sim_switch_stack
.type fanout_sim_switch_stack, %function
fanout_sim_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  mov x16, x30
  br x16
.size fanout_sim_switch_stack, .-fanout_sim_switch_stack
)");

static constexpr int kAddressWord = 11;  // x30
static constexpr int kFrameWords = 20;

#else
#error "the simulated device knows how to switch stacks on x86-64 and aarch64 only"
#endif

namespace sim {

void* make_stack(char* top, void (*entry)()) {
  auto* frame = reinterpret_cast<std::uintptr_t*>(reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{63});
  frame -= kFrameWords;
  for (int word = 0; word < kFrameWords; ++word) frame[word] = 0;
  frame[kAddressWord] = reinterpret_cast<std::uintptr_t>(entry);
  return frame;
}

}  // namespace sim
