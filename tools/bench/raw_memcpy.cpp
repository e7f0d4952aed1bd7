// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/raw_memcpy.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace fanout::bench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Host memory that was written once, so that no page is fresh.
class HostBuffer {
 public:
  explicit HostBuffer(std::size_t bytes) : mapped_bytes_(bytes + kHugePage) {
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
    start_ = reinterpret_cast<char*>((address + kHugePage - 1) / kHugePage * kHugePage);
    (void)madvise(start_, bytes, MADV_HUGEPAGE);  // advice: without it the pages are small
    std::memset(start_, 1, bytes);
  }
  ~HostBuffer() { munmap(mapped_, mapped_bytes_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  char* start() const { return start_; }

 private:
  std::size_t mapped_bytes_;
  void* mapped_;
  char* start_;
};

}  // namespace

Timing measure_memcpy(int threads, std::size_t bytes, int targets, const StopRule& rule) {
  const HostBuffer source(bytes);
  std::vector<std::unique_ptr<HostBuffer>> copies;
  for (int i = 0; i < targets; ++i) copies.push_back(std::make_unique<HostBuffer>(bytes));
  const auto border = [&](int thread) {
    return bytes * static_cast<std::size_t>(thread) / static_cast<std::size_t>(threads) / 64 * 64;
  };
  return measure_on_host(
      threads,
      [&](int thread) {
        const std::size_t begin = border(thread), end = thread + 1 == threads ? bytes : border(thread + 1);
        for (const auto& copy : copies) {
          std::memcpy(copy->start() + begin, source.start() + begin, end - begin);
          asm volatile("" : : "r"(copy->start()) : "memory");  // the copy is not to be left out
        }
      },
      rule);
}

}  // namespace fanout::bench
