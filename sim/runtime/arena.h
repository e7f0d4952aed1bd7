// SPDX-License-Identifier: Apache-2.0
// The address range of one device (or of pinned host memory), handed out in spans of 64 KiB pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace sim {

class BlockPool;

#if defined(__SANITIZE_THREAD__)
inline constexpr int kArenaShift = 35;  // the address space that TSan leaves to a program is small
#else
inline constexpr int kArenaShift = 36;
#endif
inline constexpr std::size_t kArenaBytes = std::size_t{1} << kArenaShift;
inline constexpr int kPageShift = 16;
inline constexpr std::size_t kPageBytes = std::size_t{1} << kPageShift;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Consecutive pages cut into blocks of one size. Never deleted, so that a lookup may read it without a lock.
struct Span {
  char* base = nullptr;
  std::size_t bytes = 0;        // of its pages
  std::size_t lent_bytes = 0;   // those that count: without the gaps between blocks
  std::size_t block_bytes = 0;  // from one block to the next
  std::uint32_t block_count = 0;
  std::uint32_t size_class = 0;
  std::atomic<BlockPool*> pool{nullptr};
  std::vector<std::size_t> requested;      // per block: what was asked for; 0 = free
  std::vector<std::uint8_t> tags;          // per block: the caller's mark
  std::vector<std::uint32_t> free_blocks;  // a stack: the block freed last is warm
  Span* next = nullptr;                    // spans of the pool's class that have free blocks
  Span* previous = nullptr;

  std::uint32_t index_of(const void* pointer) const {
    const std::size_t offset = static_cast<const char*>(pointer) - base;
    return block_count == 1 ? 0 : static_cast<std::uint32_t>(offset) / static_cast<std::uint32_t>(block_bytes);
  }
  char* block(std::uint32_t index) const { return base + index * block_bytes; }
};

class Arena {
 public:
  /// Takes over the reserved range [base, base + kArenaBytes) and lends at most `limit` bytes of it. One that is
  /// `closed` can be touched only between open() and close(), and gives out pages that were released only once 256 MiB
  /// of them have gathered.
  Arena(char* base, std::size_t limit, bool closed);

  /// A span of whole pages for `pool`, or null when the limit is reached, to which `gap_bytes` more do not count.
  /// Memory never lent before is filled with NaN.
  Span* acquire(std::size_t bytes, std::size_t gap_bytes, BlockPool* pool);
  void release(Span* span);

  /// Each open() has its close(); for the whole process. Nothing to do for an arena that is always open.
  void open();
  void close();

  /// The span in use that holds `pointer`, which must lie in this arena; null if none.
  Span* span_of(const void* pointer) const {
    return table_[(static_cast<const char*>(pointer) - base_) >> kPageShift].load(std::memory_order_acquire);
  }

  std::size_t limit() const { return limit_; }
  std::size_t lent() const { return lent_.load(std::memory_order_relaxed); }

 private:
  using Ranges = std::map<std::size_t, std::size_t>;  // first page → pages
  std::size_t take_pages(std::size_t pages);
  void add_free_range(std::size_t page, std::size_t pages);
  void forget_free_range(Ranges::iterator range);
  bool make_accessible(std::size_t end_page);
  void protect(int rights);

  char* base_;
  std::size_t limit_;
  std::atomic<std::size_t> lent_{0};
  std::atomic<Span*>* table_;
  std::mutex mutex_;
  Ranges free_by_page_;
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_;  // pages, first page
  std::size_t fresh_page_ = 0;                                  // pages from here on were never lent
  const bool closed_;
  std::mutex access_mutex_;  // taken behind mutex_
  int openings_ = 0;
  std::size_t accessible_pages_ = 0;
  std::vector<Span*> spare_spans_;
};

}  // namespace sim
