// SPDX-License-Identifier: Apache-2.0
// Where a module must be for DataParallel: on the primary, device_ids[0]. Three ways to get there, and what happens
// otherwise.
#include <cstdio>
#include <exception>

#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/parallel/data_parallel.h"

using namespace fanout;

// The device on which the outputs of one forward arrive.
Device outputs_of(DataParallel<Linear>& parallel) {
  return parallel(zeros({8, 4}, DType::f32, Device::host())).device();
}

// 1. Move the module to the first device of the list before it is wrapped.
void move_first() {
  Linear layer(4, 2);
  to(layer, Device(0));
  DataParallel parallel(layer, {0, 1});
  std::printf("module on cuda:0, device_ids {0, 1}: outputs on %s\n", outputs_of(parallel).name().c_str());
}

// 2. The module is on another device already: name that one first. The order of the list is free.
void make_it_the_primary() {
  Linear layer(4, 2);
  to(layer, Device(1));
  DataParallel parallel(layer, {1, 0});
  std::printf("module on cuda:1, device_ids {1, 0}: outputs on %s\n", outputs_of(parallel).name().c_str());
}

// 3. Wrap it while it is on the host, and move it any time before the first forward.
void wrap_first() {
  Linear layer(4, 2);
  DataParallel parallel(layer, {0, 1});
  to(layer, Device(0));
  std::printf("moved after wrapping, device_ids {0, 1}: outputs on %s\n", outputs_of(parallel).name().c_str());
}

// Otherwise: an error that names each misplaced tensor and the ways out, before anything is copied or launched.
bool is_refused() {
  Linear layer(4, 2);
  to(layer, Device(1));
  try {
    DataParallel parallel(layer, {0, 1});
  } catch (const PlacementError& error) {
    std::printf("\nmodule on cuda:1, device_ids {0, 1}:\n%s\n", error.what());
    return true;
  }
  return false;
}

int main() {
  try {
    move_first();
    make_it_the_primary();
    wrap_first();
    return is_refused() ? 0 : 1;
  } catch (const std::exception& error) {  // with a single device: that cuda:1 does not exist
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
