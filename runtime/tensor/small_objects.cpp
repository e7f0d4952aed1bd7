// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/small_objects.h"

#include <array>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define FANOUT_CHECKS_ADDRESSES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FANOUT_CHECKS_ADDRESSES
#endif
#endif

namespace fanout::detail {
namespace {

#if defined(FANOUT_CHECKS_ADDRESSES)
constexpr bool kKeepsBlocks = false;  // the sanitizer shall see every end
#else
constexpr bool kKeepsBlocks = true;
#endif
constexpr std::size_t kUnit = 32, kMostBytes = 1024;
constexpr int kMostBlocks = 64;

struct FreeBlock {
  FreeBlock* next;
};

// The free blocks of a thread, by size.
struct FreeBlocks {
  struct List {
    FreeBlock* first = nullptr;
    int count = 0;
  };
  std::array<List, kMostBytes / kUnit> lists;
  bool is_closed = false;

  constexpr FreeBlocks() = default;
  ~FreeBlocks() {
    is_closed = true;  // objects that live longer than this go back at once
    for (List& list : lists) {
      while (list.first != nullptr) {
        FreeBlock* const block = list.first;
        list.first = block->next;
        ::operator delete(block);
      }
    }
  }
  static std::size_t number_of(std::size_t bytes) { return (bytes - 1) / kUnit; }
};

constinit thread_local FreeBlocks free_blocks;

}  // namespace

void* allocate_small(std::size_t bytes) {
  if (!kKeepsBlocks || bytes > kMostBytes) return ::operator new(bytes);
  const std::size_t number = FreeBlocks::number_of(bytes);
  FreeBlocks::List& list = free_blocks.lists[number];
  if (list.first == nullptr) return ::operator new((number + 1) * kUnit);
  FreeBlock* const block = list.first;
  list.first = block->next;
  --list.count;
  return block;
}

void free_small(void* memory, std::size_t bytes) noexcept {
  if (!kKeepsBlocks || bytes > kMostBytes) return ::operator delete(memory);
  FreeBlocks::List& list = free_blocks.lists[FreeBlocks::number_of(bytes)];
  if (list.count == kMostBlocks || free_blocks.is_closed) return ::operator delete(memory);
  list.first = new (memory) FreeBlock{list.first};
  ++list.count;
}

}  // namespace fanout::detail
