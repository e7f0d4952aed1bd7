// SPDX-License-Identifier: Apache-2.0
// One step of data-parallel training, ready to be repeated: what `fanout bench step` times.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/batches.h"
#include "models/mlp.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/data_parallel.h"
#include "tools/options.h"

namespace fanout::bench {

/// A step is: forget the gradients, copy a batch from pinned host memory to the devices, forward, gather, mean
/// cross-entropy, backward, update. The batches are cut from 8192 random rows and come one after another.
class TrainingStep {
 public:
  /// `widths`: input, hidden layers, classes. Equal seeds give equal parameters and batches.
  TrainingStep(const std::vector<std::int64_t>& widths, std::int64_t batch_size, tools::OptimizerKind optimizer,
               const std::vector<Device>& devices, std::uint64_t seed = 0);

  /// Queues the next step; waits for nothing but the copy of its inputs.
  void operator()();

  /// Of the last step.
  const Tensor& loss() const { return loss_; }
  const models::Mlp& model() const { return model_; }
  std::int64_t batch_size() const { return batch_size_; }

 private:
  Tensor labels_on_primary(const models::Batch& batch) const;

  std::int64_t batch_size_;
  Device primary_;
  std::vector<models::Batch> batches_;
  std::size_t next_ = 0;
  models::Mlp model_;
  std::unique_ptr<Optimizer> optimizer_;
  DataParallel<models::Mlp> parallel_;
  Tensor loss_;
};

}  // namespace fanout::bench
