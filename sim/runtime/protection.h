// SPDX-License-Identifier: Apache-2.0
// FANOUT_SIM_PROTECT: device memory is closed to the program, as on a real machine, and open to the operations of the
// device; behind each block lie bytes that nobody may write.
#pragma once

#include <cstdint>

#include "sim/runtime/machine.h"
#include "sim/submit.h"

namespace sim::protection {

/// Starts to explain what touches closed memory.
void start();

/// One bit for each device whose memory an operation of `device` may touch.
std::uint32_t reach_of(const Device& device);
/// The bit of the device that owns the memory; none for memory of the host.
std::uint32_t owner_of(const void* pointer);

/// Memory of these devices is open to this process while it lives.
class [[nodiscard]] Opened {
 public:
  explicit Opened(std::uint32_t devices) : devices_(devices) {
    if (devices_ != 0) open();
  }
  ~Opened() {
    if (devices_ != 0) close();
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  void open() const;
  void close() const;
  std::uint32_t devices_;
};

inline bool is_on() {
  return machine->settings.protect;
}

/// For an operation of the device.
inline Opened open_to(int device) {
  return Opened(is_on() ? reach_of(device_at(device)) : 0);
}
/// For a copy or fill.
inline Opened open_for(const void* target, const void* source = nullptr) {
  return Opened(is_on() ? owner_of(target) | owner_of(source) : 0);
}
inline Opened open_all() {
  return Opened(is_on() ? (1u << machine->device_count()) - 1 : 0);
}

/// The block of a device that the access writes; empty if there is none.
Block written_block(const Access& access);
/// Stops the program if the block, which this thread's operation has written, is written behind its end too.
void check_end(const char* operation, const Block& block);
/// The same for a block that is about to be freed: for the host, and for kernels that found the block's address in
/// other memory. Nothing for an empty block.
void check_before_free(const Block& block);

}  // namespace sim::protection
