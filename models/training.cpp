// SPDX-License-Identifier: Apache-2.0
#include "models/training.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "models/batches.h"
#include "models/datasets/shuffle.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/device/context.h"
#include "runtime/ops/loss.h"
#include "runtime/ops/reduce.h"
#include "runtime/tensor/copy.h"
#include "runtime/trace/stages.h"

namespace fanout::models {
namespace {

// The numbers of one step on their way to the host; two take turns, so reading one does not wait for the next step.
class StepResult {
 public:
  explicit StepResult(Device device)
      : device_(device),
        loss_(empty({1}, DType::f32, Device::host(), HostMemory::pinned)),
        correct_(empty({1}, DType::i64, Device::host(), HostMemory::pinned)),
        arrived_(device) {}

  void fetch(const Tensor& loss, const Tensor& correct) {
    const DeviceGuard guard(device_);
    const StreamView stream = compute_stream(device_);
    FANOUT_CHECK(
        cudaMemcpyAsync(loss_.raw_data(), loss.raw_data(), loss.bytes(), cudaMemcpyDeviceToHost, stream.handle));
    FANOUT_CHECK(cudaMemcpyAsync(correct_.raw_data(), correct.raw_data(), correct.bytes(), cudaMemcpyDeviceToHost,
                                 stream.handle));
    arrived_.record(stream);
  }
  void wait() const { arrived_.synchronize(); }
  double loss() const { return *loss_.data<float>(); }
  std::int64_t correct() const { return *correct_.data<std::int64_t>(); }

 private:
  Device device_;
  Tensor loss_, correct_;
  Event arrived_;
};

template <class Work>
auto before_first_step(const Work& work) {
  return naming_failures([] { return std::string("before the first step: "); }, work);
}

// One run of the loop; keeps what steps and epochs share.
class Run {
 public:
  Run(const Dataset& data, const Trainee& trainee, const TrainingOptions& options, const TrainingReports& reports)
      : data_(data),
        trainee_(trainee),
        options_(options),
        reports_(reports),
        batches_(before_first_step([&] { return Batches(data.train, data.features, options.batch_size); })),
        results_{before_first_step([&] { return StepResult(trainee.device); }),
                 before_first_step([&] { return StepResult(trainee.device); })} {}

  void epoch(std::int64_t number) {
    const auto start = std::chrono::steady_clock::now();
    epoch_ = {.epoch = number};
    const std::vector<std::int64_t> order = shuffled_indices(batches_.rows(), options_.seed, number);
    train(trainee_.module);
    for (std::int64_t index = 0; index < batches_.count(); ++index) {
      naming_failures([this] { return here(); }, [&] { train_batch(batches_.batch(index, order)); });
    }
    naming_failures([this] { return here(); }, [this] { report_pending(); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const auto rows = static_cast<double>(batches_.rows());
    epoch_.train_loss /= rows;
    epoch_.train_accuracy /= rows;
    epoch_.samples_per_second = rows / took.count();
    epoch_.test_accuracy =
        naming_failures([number] { return fmt::format("evaluation after epoch {}: ", number); },
                        [&] { return accuracy(data_.test, data_.features, trainee_, options_.batch_size); });
    if (reports_.on_epoch) reports_.on_epoch(epoch_);
  }

 private:
  // Where the loop is, to stand before the text of a failure.
  std::string here() const { return fmt::format("step {} (epoch {}), {}: ", steps_, epoch_.epoch, stage_); }

  void train_batch(const Batch& batch) {
    stage_ = "zeroing gradients";
    trainee_.optimizer.zero_grad();
    stage_ = "forward";
    const Tensor labels = labels_of(batch);
    const Tensor logits = trainee_.forward(batch.images);
    const Tensor loss = loss_of(logits, labels);
    stage_ = "backward";
    loss.backward();
    stage_ = "optimizer";
    trainee_.optimizer.step();
    stage_ = "reading the loss";
    StepResult& result = results_[steps_ % 2];
    {
      const StageScope reading(trainee_.device, Stage::loss);
      result.fetch(loss, count_correct(logits, labels));
    }
    report_pending();
    pending_ = {steps_, batch.labels.elements()};
    ++steps_;
  }

  Tensor labels_of(const Batch& batch) const {
    const StageScope stage(trainee_.device, Stage::scatter);
    return copied_to(batch.labels, trainee_.device);
  }
  Tensor loss_of(const Tensor& logits, const Tensor& labels) const {
    const StageScope stage(trainee_.device, Stage::loss);
    return cross_entropy(logits, labels);
  }

  // The step before the one just queued. Its batch's memory is free for the next one once it has passed.
  void report_pending() {
    if (!pending_) return;
    const auto [step, rows] = *pending_;
    pending_.reset();
    const StepResult& result = results_[step % 2];
    result.wait();
    const double loss = result.loss();
    if (!std::isfinite(loss)) {
      throw Error(fmt::format("the loss became {} at step {} (epoch {}); a smaller learning rate usually cures it",
                              std::isnan(loss) ? "nan" : "infinite", step, epoch_.epoch));
    }
    epoch_.train_loss += loss * static_cast<double>(rows);
    epoch_.train_accuracy += static_cast<double>(result.correct());
    if (reports_.on_step) reports_.on_step({step, epoch_.epoch, loss});
  }

  struct Pending {
    std::int64_t step, rows;
  };
  const Dataset& data_;
  const Trainee& trainee_;
  const TrainingOptions& options_;
  const TrainingReports& reports_;
  Batches batches_;
  StepResult results_[2];
  std::optional<Pending> pending_;
  const char* stage_ = "forward";
  EpochReport epoch_;
  std::int64_t steps_ = 0;
};

}  // namespace

double accuracy(const Split& split, std::int64_t features, const Trainee& trainee, std::int64_t batch_size) {
  const NoGrad no_graph;
  eval(trainee.module);
  Batches batches(split, features, batch_size);
  std::vector<std::int64_t> order(split.labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::int64_t correct = 0;
  for (std::int64_t index = 0; index < batches.count(); ++index) {
    const Batch batch = batches.batch(index, order);
    const Tensor labels = copied_to(batch.labels, trainee.device);
    correct += static_cast<std::int64_t>(item(count_correct(trainee.forward(batch.images), labels)));
  }
  return order.empty() ? 0 : static_cast<double>(correct) / static_cast<double>(order.size());
}

void run_training(const Dataset& data, const Trainee& trainee, const TrainingOptions& options,
                  const TrainingReports& reports) {
  Run run(data, trainee, options, reports);
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) run.epoch(epoch);
}

}  // namespace fanout::models
