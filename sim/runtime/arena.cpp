// SPDX-License-Identifier: Apache-2.0
// Best fit over free page ranges, which coalesce with their neighbours, so that long runs do not fragment.
#include "sim/runtime/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "sim/runtime/memory_marks.h"

namespace sim {
namespace {
constexpr std::size_t kPages = kArenaBytes / kPageBytes;
constexpr std::size_t kNoPage = kPages;
constexpr std::size_t kAccessStep = (std::size_t{32} << 20) / kPageBytes;
constexpr std::size_t kFreshFillBytes = std::size_t{64} << 20;  // filling touches memory: huge spans only at the start
constexpr std::size_t kQuarantinePages = (std::size_t{256} << 20) / kPageBytes;
constexpr std::size_t kGiveBackBytes = std::size_t{64} << 20;  // released spans from here on go back to the system
}  // namespace

Arena::Arena(char* base, std::size_t limit, bool closed) : base_(base), limit_(limit), closed_(closed) {
  void* table = mmap(nullptr, kPages * sizeof(*table_), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) std::abort();
  table_ = static_cast<std::atomic<Span*>*>(table);  // zero bytes are null pointers
}

Span* Arena::acquire(std::size_t bytes, std::size_t gap_bytes, BlockPool* pool) {
  if (bytes > limit_) return nullptr;
  const std::size_t lent_bytes = round_up(bytes, kPageBytes);
  bytes = round_up(bytes + gap_bytes, kPageBytes);
  const std::size_t pages = bytes >> kPageShift;
  std::lock_guard guard(mutex_);
  if (lent_bytes > round_up(limit_, kPageBytes) - lent_.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t fresh_before = fresh_page_;
  const std::size_t page = take_pages(pages);
  if (page == kNoPage) return nullptr;
  lent_.fetch_add(lent_bytes, std::memory_order_relaxed);

  Span* span = nullptr;
  if (spare_spans_.empty()) {
    span = new Span;
  } else {
    span = spare_spans_.back();
    spare_spans_.pop_back();
  }
  span->base = base_ + (page << kPageShift);
  span->bytes = bytes;
  span->lent_bytes = lent_bytes;
  span->pool.store(pool, std::memory_order_relaxed);
  span->next = span->previous = nullptr;
  mark_usable(span->base, bytes);
  if (page + pages > fresh_before) {
    open();
    fill_with_nan(span->base, std::min(bytes, kFreshFillBytes));
    close();
  }
  mark_unusable(span->base, bytes);
  for (std::size_t i = page; i < page + pages; ++i) table_[i].store(span, std::memory_order_release);
  return span;
}

void Arena::release(Span* span) {
  std::lock_guard guard(mutex_);
  const std::size_t page = (span->base - base_) >> kPageShift;
  const std::size_t pages = span->bytes >> kPageShift;
  for (std::size_t i = page; i < page + pages; ++i) table_[i].store(nullptr, std::memory_order_release);
  span->pool.store(nullptr, std::memory_order_relaxed);
  lent_.fetch_sub(span->lent_bytes, std::memory_order_relaxed);
  if (span->bytes >= kGiveBackBytes) madvise(span->base, span->bytes, MADV_DONTNEED);
  spare_spans_.push_back(span);
  add_free_range(page, pages);
}

std::size_t Arena::take_pages(std::size_t pages) {
  if (closed_ && fresh_page_ < (lent() >> kPageShift) + kQuarantinePages && make_accessible(fresh_page_ + pages)) {
    return std::exchange(fresh_page_, fresh_page_ + pages);
  }
  const auto best = free_by_size_.lower_bound({pages, 0});
  if (best != free_by_size_.end()) {
    const auto [found_pages, page] = *best;
    forget_free_range(free_by_page_.find(page));
    if (found_pages > pages) add_free_range(page + pages, found_pages - pages);
    return page;
  }
  // A free range that touches the fresh pages is used up first.
  std::size_t page = fresh_page_;
  const auto last = free_by_page_.empty() ? free_by_page_.end() : std::prev(free_by_page_.end());
  const bool joins = last != free_by_page_.end() && last->first + last->second == fresh_page_;
  if (joins) page = last->first;
  if (!make_accessible(page + pages)) return kNoPage;
  if (joins) forget_free_range(last);
  fresh_page_ = page + pages;
  return page;
}

void Arena::add_free_range(std::size_t page, std::size_t pages) {
  auto after = free_by_page_.lower_bound(page);
  if (after != free_by_page_.end() && after->first == page + pages) {
    pages += after->second;
    const auto merged = after++;
    forget_free_range(merged);
  }
  if (after != free_by_page_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == page) {
      page = before->first;
      pages += before->second;
      forget_free_range(before);
    }
  }
  free_by_page_.emplace(page, pages);
  free_by_size_.emplace(pages, page);
}

void Arena::forget_free_range(Ranges::iterator range) {
  free_by_size_.erase({range->second, range->first});
  free_by_page_.erase(range);
}

bool Arena::make_accessible(std::size_t end_page) {
  if (end_page <= accessible_pages_) return true;
  if (end_page > kPages) return false;
  const std::size_t end = std::min(round_up(end_page, kAccessStep), kPages);
  char* const start = base_ + (accessible_pages_ << kPageShift);
  const std::size_t bytes = (end - accessible_pages_) << kPageShift;
  std::lock_guard guard(access_mutex_);
  if ((!closed_ || openings_ > 0) && mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(start, bytes, MADV_HUGEPAGE);
  accessible_pages_ = end;
  return true;
}

void Arena::open() {
  if (!closed_) return;
  std::lock_guard guard(access_mutex_);
  if (openings_++ == 0) protect(PROT_READ | PROT_WRITE);
}

void Arena::close() {
  if (!closed_) return;
  std::lock_guard guard(access_mutex_);
  if (--openings_ == 0) protect(PROT_NONE);
}

void Arena::protect(int rights) {
  if (accessible_pages_ > 0 && mprotect(base_, accessible_pages_ << kPageShift, rights) != 0) std::abort();
}

}  // namespace sim
