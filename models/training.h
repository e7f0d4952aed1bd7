// SPDX-License-Identifier: Apache-2.0
// The training loop: epochs over shuffled batches, the loss of every step, the accuracy after every epoch.
#pragma once

#include <cstdint>
#include <functional>

#include "models/datasets/dataset.h"
#include "runtime/nn/module.h"
#include "runtime/optim/optimizer.h"

namespace fanout::models {

struct StepReport {
  std::int64_t step = 0, epoch = 0;  // steps from 0 over the whole run, epochs from 1
  double loss = 0;                   // mean over the batch
};

struct EpochReport {
  std::int64_t epoch = 0;  // from 1
  double train_loss = 0;   // mean over the epoch's rows, each as its step saw it
  double train_accuracy = 0, test_accuracy = 0;
  double samples_per_second = 0;  // rows trained per second, without evaluation
};

/// What is trained: the module and its optimizer, and how the module is run, on one device or several.
struct Trainee {
  ModuleView module;
  Optimizer& optimizer;
  /// images [rows, features] on the host → logits [rows, classes] on `device`.
  std::function<Tensor(const Tensor&)> forward;
  Device device;
};

struct TrainingOptions {
  std::int64_t epochs = 1, batch_size = 64;
  std::uint64_t seed = 0;
};

struct TrainingReports {
  /// Called for every step in order, one step late, so that the device need not wait for the host.
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;
};

/// Trains with cross-entropy. Rows are shuffled for each epoch from the seed; the last batch is kept, however small.
/// Throws fanout::Error naming step and epoch when the loss is no longer finite. A CudaError, CublasError or NcclError
/// names step, epoch and stage (forward, backward, ...) before its own text.
void run_training(const Dataset& data, const Trainee& trainee, const TrainingOptions& options,
                  const TrainingReports& reports);

/// Fraction of `split`'s rows whose largest logit is the label's; 0 for no rows.
double accuracy(const Split& split, std::int64_t features, const Trainee& trainee, std::int64_t batch_size);

}  // namespace fanout::models
