// SPDX-License-Identifier: Apache-2.0
// Size classes: multiples of 256 bytes up to 4 KiB, then eight steps per power of two (at most 12.5 % are wasted).
#include "sim/runtime/block_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/runtime/memory_marks.h"

namespace sim {
namespace {

constexpr std::size_t kUnit = 256;
constexpr std::size_t kSmallBytes = 128 << 10;  // larger blocks get a span each
constexpr std::size_t kBlocksPerSpan = 8;
#if defined(FANOUT_SIM_KERNEL_CHECKS)
constexpr bool kChecksKernels = true;
#else
constexpr bool kChecksKernels = false;
#endif

std::uint32_t class_of(std::size_t bytes) {
  const std::size_t top = (bytes + kUnit - 1) / kUnit - 1;  // index of the last unit
  if (top < 16) return static_cast<std::uint32_t>(top);
  const int shift = std::bit_width(top) - 4;
  return static_cast<std::uint32_t>(shift * 8 + (top >> shift));
}

std::size_t class_bytes(std::uint32_t size_class) {
  if (size_class < 16) return (size_class + 1) * kUnit;
  const int shift = static_cast<int>(size_class / 8) - 1;
  return (std::size_t{size_class - shift * 8u} + 1) * kUnit << shift;
}

}  // namespace

BlockPool::BlockPool(Arena& arena, Unused unused, std::size_t max_bytes, const Settings& settings)
    : arena_(arena),
      unused_(unused),
      max_bytes_(max_bytes),
      poison_(settings.poison),
      protects_(settings.protect),
      gap_bytes_(kChecksKernels || settings.protect ? kUnit : 0) {}

void BlockPool::spoil(void* block, std::size_t bytes) {
  const bool marks_gap = protects_ && !kMemoryIsMarked;
  if (!poison_ && !marks_gap) return;
  arena_.open();
  if (poison_) fill_with_nan(block, bytes);
  if (marks_gap) fill_with_nan(static_cast<char*>(block) + bytes, gap_bytes_);
  arena_.close();
}

const char* BlockPool::written_behind(const Block& block) const {
  if (!protects_ || kMemoryIsMarked) return nullptr;
  arena_.open();
  const char* const gap = block.start + block.bytes;
  const auto is_written = [](char byte) { return static_cast<unsigned char>(byte) != kNanByte; };
  const char* const found = std::find_if(gap, gap + gap_bytes_, is_written);
  arena_.close();
  return found == gap + gap_bytes_ ? nullptr : found;
}

void* BlockPool::allocate(std::size_t bytes, std::uint8_t tag) {
  if (bytes > kArenaBytes) return nullptr;
  const bool exact = unused_ == Unused::given_back && bytes > kSmallBytes;
  const std::uint32_t size_class = exact ? kExact : class_of(bytes);
  std::lock_guard guard(lock_);
  Span* span = exact ? nullptr : with_free_blocks_[size_class];
  if (!span) {
    span = add_span(bytes, size_class);
    if (!span) return nullptr;
  }
  const std::uint32_t index = span->free_blocks.back();
  span->free_blocks.pop_back();
  if (span->free_blocks.empty()) unlink(span);
  span->requested[index] = bytes;
  span->tags[index] = tag;
  use_.used += span->block_bytes - gap_bytes_;
  use_.used_high = std::max(use_.used_high, use_.used);
  char* const block = span->block(index);
  mark_usable(block, bytes);
  spoil(block, bytes);
  return block;
}

bool BlockPool::free(Span* span, void* pointer) {
  std::lock_guard guard(lock_);
  const std::size_t bytes = retire_locked(span, pointer);
  if (bytes > 0) recycle_locked(span, pointer, bytes);
  return bytes > 0;
}

std::size_t BlockPool::retire(Span* span, void* pointer) {
  std::lock_guard guard(lock_);
  return retire_locked(span, pointer);
}

void BlockPool::recycle(Span* span, void* pointer, std::size_t bytes) {
  std::lock_guard guard(lock_);
  recycle_locked(span, pointer, bytes);
}

bool BlockPool::revive(Span* span, void* pointer, std::size_t bytes) {
  std::lock_guard guard(lock_);
  if (span->size_class == kExact || span->size_class != class_of(bytes)) return false;
  span->requested[span->index_of(pointer)] = bytes;
  mark_usable(pointer, bytes);
  use_.used += span->block_bytes - gap_bytes_;
  use_.used_high = std::max(use_.used_high, use_.used);
  return true;
}

std::size_t BlockPool::retire_locked(Span* span, void* pointer) {
  if (span->pool.load(std::memory_order_relaxed) != this) return 0;
  const std::uint32_t index = span->index_of(pointer);
  if (index >= span->block_count || span->block(index) != pointer) return 0;
  use_.used -= span->requested[index] > 0 ? span->block_bytes - gap_bytes_ : 0;
  return std::exchange(span->requested[index], 0);
}

void BlockPool::recycle_locked(Span* span, void* pointer, std::size_t bytes) {
  spoil(pointer, bytes);
  mark_unusable(pointer, bytes);
  if (span->free_blocks.empty()) link(span);
  // Who still uses a block that is free should not find another one in its place.
  span->free_blocks.insert(protects_ ? span->free_blocks.begin() : span->free_blocks.end(), span->index_of(pointer));
  if (span->free_blocks.size() == span->block_count) {
    if (unused_ == Unused::given_back)
      release(span);
    else if (use_.reserved > release_threshold_)
      wants_trim_.store(true, std::memory_order_relaxed);
  }
}

Span* BlockPool::add_span(std::size_t bytes, std::uint32_t size_class) {
  const std::size_t block = size_class == kExact ? bytes : class_bytes(size_class);
  const std::size_t wanted = round_up(block <= kSmallBytes ? block * kBlocksPerSpan : block, kPageBytes);
  if (wanted > max_bytes_ - use_.reserved) return nullptr;
  const std::size_t count = block <= kSmallBytes ? wanted / block : 1;
  Span* const span = arena_.acquire(wanted, count * gap_bytes_, this);
  if (!span) return nullptr;
  span->block_bytes = block + gap_bytes_;
  span->block_count = static_cast<std::uint32_t>(count);
  span->size_class = size_class;
  span->requested.assign(count, 0);
  span->tags.assign(count, 0);
  span->free_blocks.clear();
  for (std::size_t i = count; i-- > 0;) span->free_blocks.push_back(static_cast<std::uint32_t>(i));
  spans_.push_back(span);
  use_.reserved += span->lent_bytes;
  use_.reserved_high = std::max(use_.reserved_high, use_.reserved);
  link(span);
  return span;
}

void BlockPool::link(Span* span) {
  Span*& head = with_free_blocks_[span->size_class];
  span->previous = nullptr;
  span->next = head;
  if (head) head->previous = span;
  head = span;
}

void BlockPool::unlink(Span* span) {
  if (span->next) span->next->previous = span->previous;
  (span->previous ? span->previous->next : with_free_blocks_[span->size_class]) = span->next;
  span->next = span->previous = nullptr;
}

// The span must be linked; it leaves spans_ too.
void BlockPool::release(Span* span) {
  unlink(span);
  use_.reserved -= span->lent_bytes;
  spans_.erase(std::find(spans_.begin(), spans_.end(), span));
  arena_.release(span);
}

void BlockPool::trim(std::size_t keep) {
  std::lock_guard guard(lock_);
  trim_locked(keep);
}

void BlockPool::trim_locked(std::size_t keep) {
  for (std::size_t i = spans_.size(); i-- > 0 && use_.reserved > keep;)
    if (spans_[i]->free_blocks.size() == spans_[i]->block_count) release(spans_[i]);
}

void BlockPool::trim_to_threshold() {
  std::lock_guard guard(lock_);
  wants_trim_.store(false, std::memory_order_relaxed);
  trim_locked(release_threshold_);
}

void BlockPool::clear() {
  std::lock_guard guard(lock_);
  while (!spans_.empty()) {
    Span* const span = spans_.back();
    if (span->free_blocks.empty()) link(span);
    std::fill(span->requested.begin(), span->requested.end(), 0);
    release(span);
  }
  use_.used = 0;
}

PoolUse BlockPool::use() {
  std::lock_guard guard(lock_);
  return use_;
}

void BlockPool::reset_high_marks(bool reserved, bool used) {
  std::lock_guard guard(lock_);
  if (reserved) use_.reserved_high = use_.reserved;
  if (used) use_.used_high = use_.used;
}

std::uint64_t BlockPool::release_threshold() {
  std::lock_guard guard(lock_);
  return release_threshold_;
}

void BlockPool::set_release_threshold(std::uint64_t bytes) {
  std::lock_guard guard(lock_);
  release_threshold_ = bytes;
}

Block find_block(const Arena& arena, const void* pointer) {
  Span* const span = arena.span_of(pointer);
  if (!span) return {};
  const std::uint32_t index = span->index_of(pointer);
  if (index >= span->block_count || span->requested[index] == 0) return {};
  return {span->block(index), span->requested[index], span, span->tags[index]};
}

}  // namespace sim
