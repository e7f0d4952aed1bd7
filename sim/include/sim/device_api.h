// SPDX-License-Identifier: Apache-2.0
// The device half of the CUDA runtime: what a kernel's source may use, and how it is launched.
//
// A `.cu` file is compiled as C++. A kernel runs as a loop over the threads of a block, which the compiler may
// vectorise; the first thread that must wait for another one turns the rest of the block into fibers (sim/lanes.h).
#pragma once

#include "sim/host_api.h"
// The order is that of use.
#include "sim/qualifiers.h"
// The variables and the barrier.
#include "sim/threads.h"
// What is built on them.
#include "sim/atomics.h"
#include "sim/device_math.h"
#include "sim/launch.h"
#include "sim/warp_functions.h"
