// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime on a machine without a GPU: simulated devices, the same names, codes and rules.
#pragma once

#include "sim/host_api.h"
// The host half first: the device half is built on it.
#include "sim/device_api.h"
// Last, since it defines macros.
#include "sim/cuda_places.h"
