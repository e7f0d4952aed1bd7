// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/device/error.h"
#include "runtime/device/warning.h"

namespace fanout {
namespace {

struct ClosedLinks {
  std::atomic<bool> any = false;
  std::mutex lock;
  std::set<std::pair<Device, Device>> pairs;  // the smaller index first
};

// Not destroyed: threads may copy while the process ends.
ClosedLinks& closed() {
  static auto& made = *new ClosedLinks;
  return made;
}

bool is_open(Device a, Device b) {
  ClosedLinks& links = closed();
  if (!links.any.load(std::memory_order_acquire)) return true;
  const std::lock_guard guard(links.lock);
  return !links.pairs.contains(std::minmax(a, b));
}

class PinnedBytes {
 public:
  explicit PinnedBytes(std::size_t bytes) { FANOUT_CHECK(cudaMallocHost(&pointer_, bytes)); }
  ~PinnedBytes() { detail::report_unreleased(cudaFreeHost(pointer_), "cudaFreeHost"); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;
  void* data() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
};

void copy_through_host(void* target, const void* source, std::size_t bytes, StreamView stream) {
  const PinnedBytes stage(bytes);
  FANOUT_CHECK(cudaMemcpyAsync(stage.data(), source, bytes, cudaMemcpyDeviceToHost, stream.handle));
  FANOUT_CHECK(cudaMemcpyAsync(target, stage.data(), bytes, cudaMemcpyHostToDevice, stream.handle));
  stream.synchronize();
}

}  // namespace

bool links_open(const std::vector<Device>& devices) {
  if (!closed().any.load(std::memory_order_acquire)) return true;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!is_open(devices[i], devices[j])) return false;
    }
  }
  return true;
}

void close_link(Device a, Device b, const std::string& reason) {
  {
    ClosedLinks& links = closed();
    const std::lock_guard guard(links.lock);
    if (!links.pairs.insert(std::minmax(a, b)).second) return;
    links.any.store(true, std::memory_order_release);
  }
  const auto [first, second] = std::minmax(a, b);
  warn(
      fmt::format("the link between {} and {} is not used any more, since {}; what they exchange goes through the "
                  "host, which is slower",
                  first.name(), second.name(), reason));
}

void copy_between(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes,
                  StreamView stream) {
  if (is_open(target_device, source_device)) [[likely]] {
    const cudaError_t code =
        cudaMemcpyPeerAsync(target, target_device.index(), source, source_device.index(), bytes, stream.handle);
    if (code != cudaErrorPeerAccessUnsupported) {
      detail::check(code, "cudaMemcpyPeerAsync");
      return;
    }
    (void)cudaGetLastError();  // dealt with here
    close_link(target_device, source_device, "it refused a copy (cudaErrorPeerAccessUnsupported)");
  }
  copy_through_host(target, source, bytes, stream);
}

}  // namespace fanout
