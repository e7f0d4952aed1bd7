// SPDX-License-Identifier: Apache-2.0
// Blocks of device memory by size class, cut from an arena's spans. Freed blocks are reused at once, the last one
// first; with FANOUT_SIM_PROTECT the last one last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/runtime/arena.h"
#include "sim/runtime/settings.h"
#include "sim/runtime/spin_lock.h"

namespace sim {

/// What a pool does with memory that nobody uses.
enum class Unused {
  kept,       // until it is trimmed: the pools of cudaMallocAsync
  given_back  // at once: cudaMalloc, cudaMallocHost
};

/// A live allocation.
struct Block {
  char* start = nullptr;
  std::size_t bytes = 0;  // as requested
  Span* span = nullptr;
  std::uint8_t tag = 0;
  explicit operator bool() const { return start != nullptr; }
};

struct PoolUse {
  std::size_t reserved, reserved_high, used, used_high;
};

class BlockPool {
 public:
  BlockPool(Arena& arena, Unused unused, std::size_t max_bytes, const Settings& settings);

  /// A 256-byte aligned block, or null when neither arena nor pool limit has room. `tag` can be read with the block.
  void* allocate(std::size_t bytes, std::uint8_t tag = 0);

  /// Frees the block that starts at `pointer` in `span`. False if no live block starts there.
  bool free(Span* span, void* pointer);
  /// The first half of free(): the block is no longer live, but what was queued before may still use its memory. Gives
  /// the bytes that were requested, 0 if no live block starts there.
  std::size_t retire(Span* span, void* pointer);
  /// The second half: the memory may be given out again.
  void recycle(Span* span, void* pointer, std::size_t bytes);
  /// Or instead: the block is live again, with `bytes` requested. False if that is not its size class.
  bool revive(Span* span, void* pointer, std::size_t bytes);

  /// Gives unused spans back until at most `keep` bytes are reserved.
  void trim(std::size_t keep);

  /// Frees every block, used or not.
  void clear();

  /// Fills a block with what nobody has written, and the gap behind it with what must stay there, as far as the
  /// settings ask for it.
  void spoil(void* block, std::size_t bytes);
  /// The first byte of the gap behind a block that somebody has written; null if there is none.
  const char* written_behind(const Block& block) const;

  PoolUse use();
  void reset_high_marks(bool reserved, bool used);
  std::uint64_t release_threshold();
  void set_release_threshold(std::uint64_t bytes);
  /// Whether a synchronisation should give memory back. No lock.
  bool wants_trim() const { return wants_trim_.load(std::memory_order_relaxed); }
  void trim_to_threshold();

 private:
  static constexpr std::uint32_t kClasses = 216;
  static constexpr std::uint32_t kExact = kClasses;  // a span of its own, returned when freed
  Span* add_span(std::size_t bytes, std::uint32_t size_class);
  void link(Span* span);
  void unlink(Span* span);
  void release(Span* span);
  void trim_locked(std::size_t keep);
  std::size_t retire_locked(Span* span, void* pointer);
  void recycle_locked(Span* span, void* pointer, std::size_t bytes);

  Arena& arena_;
  const Unused unused_;
  const std::size_t max_bytes_;
  const bool poison_;
  const bool protects_;
  const std::size_t gap_bytes_;  // behind each block, so that a step too far is seen and hits no other
  SpinLock lock_;
  Span* with_free_blocks_[kClasses + 1] = {};
  std::vector<Span*> spans_;
  PoolUse use_{};
  std::uint64_t release_threshold_ = 0;
  std::atomic<bool> wants_trim_{false};
};

/// The live allocation that holds `pointer`, which must lie in `arena`; empty if there is none.
Block find_block(const Arena& arena, const void* pointer);

}  // namespace sim
