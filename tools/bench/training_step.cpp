// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/training_step.h"

#include <algorithm>

#include "runtime/nn/move.h"
#include "runtime/ops/loss.h"
#include "runtime/tensor/copy.h"
#include "runtime/tensor/random.h"
#include "runtime/trace/stages.h"
#include "tools/optimizer_choice.h"

namespace fanout::bench {
namespace {

constexpr std::int64_t kRows = 8192;

std::vector<models::Batch> random_batches(const std::vector<std::int64_t>& widths, std::int64_t batch_size,
                                          std::uint64_t seed) {
  const std::int64_t features = widths.front(), classes = widths.back();
  const std::int64_t count = std::max<std::int64_t>(1, kRows / batch_size), rows = count * batch_size;
  const Tensor images = empty({rows, features}, DType::f32, Device::host(), HostMemory::pinned);
  const Tensor labels = empty({rows}, DType::i64, Device::host(), HostMemory::pinned);
  Generator generator(seed);
  std::generate_n(images.data<float>(), images.elements(), [&] { return static_cast<float>(generator.normal()); });
  std::generate_n(labels.data<std::int64_t>(), rows, [&] {
    return std::min(classes - 1, static_cast<std::int64_t>(generator.uniform(0, static_cast<double>(classes))));
  });
  const auto piece = [&](const Tensor& whole, std::int64_t number) {
    const std::int64_t begin = number * batch_size;
    return strided_view(whole, whole.shape().with(0, batch_size), whole.strides(), begin * whole.strides()[0]);
  };
  std::vector<models::Batch> batches;
  for (std::int64_t number = 0; number < count; ++number) {
    batches.push_back({piece(images, number), piece(labels, number)});
  }
  return batches;
}

models::Mlp placed_mlp(const std::vector<std::int64_t>& widths, std::uint64_t seed, Device device) {
  manual_seed(seed);
  models::Mlp model(widths);
  to(model, device);
  return model;
}

std::vector<int> ids_of(const std::vector<Device>& devices) {
  std::vector<int> ids;
  for (const Device device : devices) ids.push_back(device.index());
  return ids;
}

}  // namespace

TrainingStep::TrainingStep(const std::vector<std::int64_t>& widths, std::int64_t batch_size,
                           tools::OptimizerKind optimizer, const std::vector<Device>& devices, std::uint64_t seed)
    : batch_size_(batch_size),
      primary_(devices[0]),
      batches_(random_batches(widths, batch_size, seed)),
      model_(placed_mlp(widths, seed, primary_)),
      optimizer_(tools::make_optimizer(optimizer, parameters(model_), {})),
      parallel_(model_, ids_of(devices)) {}

Tensor TrainingStep::labels_on_primary(const models::Batch& batch) const {
  const StageScope stage(primary_, Stage::scatter);
  return copied_to(batch.labels, primary_);
}

void TrainingStep::operator()() {
  const models::Batch& batch = batches_[next_];
  next_ = (next_ + 1) % batches_.size();
  optimizer_->zero_grad();
  const Tensor labels = labels_on_primary(batch);
  const Tensor logits = parallel_(batch.images);
  {
    const StageScope stage(primary_, Stage::loss);
    loss_ = cross_entropy(logits, labels);
  }
  loss_.backward();
  optimizer_->step();
}

}  // namespace fanout::bench
