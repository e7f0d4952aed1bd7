// SPDX-License-Identifier: Apache-2.0
// Faults on request, for tests of what a program does when the machine fails. FANOUT_SIM_FAULTS has the same text.
#pragma once

namespace sim {

/// Faults from now on, with all counts at 0, in place of those before; empty: none. The text is a list such as
/// "alloc@1:3,down@0-1" (sim/README.md has all kinds). A text that is not understood stops the program.
void inject_faults(const char* text);

}  // namespace sim
