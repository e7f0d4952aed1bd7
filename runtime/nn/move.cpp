// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/move.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"
#include "runtime/tensor/flat.h"

namespace fanout {
namespace {

Intrusive<Storage> buffer_for(const FlatLayout& layout, Device device) {
  if (!device.is_host()) return zeroed_buffer(layout, device);
  auto buffer = Storage::allocate(device, layout.bytes());
  if (layout.bytes() > 0) std::memset(buffer->pointer(), 0, layout.bytes());
  return buffer;
}

bool all_on(const std::vector<Tensor>& tensors, Device device) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.device() == device; });
}

bool gradients_are_flat(const std::vector<Tensor>& parameters, const FlatLayout& layout) {
  std::vector<Tensor> places;
  for (const Tensor& parameter : parameters) places.push_back(gradient_sink(parameter).place());
  return layout.holds(places);
}

// The body stays the same, so that every handle follows.
void move_into(const Tensor& tensor, const Tensor& place) {
  copy(place, tensor);
  place.body().storage->continue_count(*tensor.body().storage);
  TensorBody& body = tensor.body();
  body.storage = place.body().storage;
  body.data = place.body().data;
  body.strides = place.body().strides;
  body.contiguous = true;
}

void move_into(const std::vector<Tensor>& tensors, const FlatLayout& layout, const Intrusive<Storage>& buffer) {
  for (std::size_t i = 0; i < tensors.size(); ++i) move_into(tensors[i], layout.part(buffer, i, tensors[i]));
}

}  // namespace

void detail::move_tensors(ModuleView module, Device device) {
  if (!device.is_host()) require_device(device);
  const std::vector<Tensor> trained = parameters(module), kept = buffers(module);
  const FlatLayout trained_layout(trained), kept_layout(kept);
  const bool in_place = all_on(trained, device) && all_on(kept, device) && trained_layout.holds(trained) &&
                        kept_layout.holds(kept) && (device.is_host() || gradients_are_flat(trained, trained_layout));
  if (in_place) return;

  const Intrusive<Storage> trained_buffer = buffer_for(trained_layout, device);
  const Intrusive<Storage> kept_buffer = buffer_for(kept_layout, device);
  const Intrusive<Storage> gradient_buffer = device.is_host() ? nullptr : zeroed_buffer(trained_layout, device);
  move_into(trained, trained_layout, trained_buffer);
  move_into(kept, kept_layout, kept_buffer);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    GradientSink& sink = gradient_sink(trained[i]);
    sink.move_to(device);
    if (gradient_buffer) sink.set_place(trained_layout.part(gradient_buffer, i, trained[i]));
  }
  for (const Tensor& buffer : kept) {
    if (buffer.requires_grad()) gradient_sink(buffer).move_to(device);
  }
}

void flatten(ModuleView module) {
  const std::vector<Tensor> trained = parameters(module), kept = buffers(module);
  const Tensor& first = trained.empty() ? (kept.empty() ? Tensor() : kept[0]) : trained[0];
  if (first.defined() && all_on(trained, first.device()) && all_on(kept, first.device())) {
    detail::move_tensors(module, first.device());
  }
}

}  // namespace fanout
