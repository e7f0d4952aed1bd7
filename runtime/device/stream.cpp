// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/stream.h"

#include "runtime/device/error.h"

namespace fanout {

void StreamView::synchronize() const {
  FANOUT_CHECK(cudaStreamSynchronize(handle));
}

Event::Event(Device device, EventTime time) {
  const DeviceGuard guard(device);
  FANOUT_CHECK(cudaEventCreateWithFlags(&handle_, time == EventTime::kept ? cudaEventDefault : cudaEventDisableTiming));
}

Event::~Event() {
  detail::report_unreleased(cudaEventDestroy(handle_), "cudaEventDestroy");
}

void Event::record(StreamView stream) {
  FANOUT_CHECK(cudaEventRecord(handle_, stream.handle));
}

void Event::synchronize() const {
  FANOUT_CHECK(cudaEventSynchronize(handle_));
}

double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  FANOUT_CHECK(cudaEventElapsedTime(&milliseconds, earlier.handle_, handle_));
  return static_cast<double>(milliseconds) * 1e-3;
}

Stream::Stream(Device device) : device_(device), event_(device) {
  const DeviceGuard guard(device);
  FANOUT_CHECK(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
}

Stream::~Stream() {
  detail::report_unreleased(cudaStreamDestroy(handle_), "cudaStreamDestroy");
}

void wait_for(StreamView waiter, Stream& on) {
  on.event().record(on.view());
  FANOUT_CHECK(cudaStreamWaitEvent(waiter.handle, on.event().handle(), 0));
}

}  // namespace fanout
