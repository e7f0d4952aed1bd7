// SPDX-License-Identifier: Apache-2.0
// Changes the stack that a host thread runs on.
#pragma once

/// Saves the callee-saved registers on this stack and its pointer in `*from`, then goes on where `to` was saved.
extern "C" void fanout_sim_switch_stack(void** from, void* to);

namespace sim {

/// Prepares the stack that ends at `top` so that a switch to the result calls `entry`, which must not return.
void* make_stack(char* top, void (*entry)());

}  // namespace sim
