// SPDX-License-Identifier: Apache-2.0
#include "models/training.h"

#include <catch2/catch.hpp>

#include "models/batches.h"
#include "models/mlp.h"
#include "runtime/nn/move.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/tensor/random.h"

using namespace fanout;
using namespace fanout::models;
using Catch::Matchers::Contains;

namespace {

// Row i is [i, -i] with label i % 3.
Split counting_split(std::int64_t rows) {
  Split split;
  for (std::int64_t row = 0; row < rows; ++row) {
    split.images.insert(split.images.end(), {static_cast<float>(row), static_cast<float>(-row)});
    split.labels.push_back(row % 3);
  }
  return split;
}

struct Recorded {
  std::vector<StepReport> steps;
  std::vector<EpochReport> epochs;
};

Recorded train_synthetic(const Dataset& data, double learning_rate, const TrainingOptions& options, bool parallel) {
  manual_seed(4);
  Mlp model({data.features, 16, data.classes});
  to(model, Device(0));
  Sgd optimizer(parameters(model), {.learning_rate = learning_rate, .momentum = 0.9});
  DataParallel spread(model, {0, 1, 2});
  const auto forward = [&](const Tensor& images) { return parallel ? spread(images) : model(to(images, Device(0))); };
  Recorded recorded;
  run_training(data, {model, optimizer, forward, Device(0)}, options,
               {[&](const StepReport& step) { recorded.steps.push_back(step); },
                [&](const EpochReport& epoch) { recorded.epochs.push_back(epoch); }});
  return recorded;
}

}  // namespace

TEST_CASE("an Mlp has a Linear for each pair of widths, named as in torch's ModuleList") {
  const Mlp model({8, 5, 3});
  std::vector<std::string> names;
  for (const NamedTensor& entry : state_dict(model)) names.push_back(entry.name + " " + entry.tensor.shape().text());
  CHECK(names == std::vector<std::string>{"layers.0.weight [5, 8]", "layers.0.bias [5]", "layers.1.weight [3, 5]",
                                          "layers.1.bias [3]"});
}

TEST_CASE("batches hold the rows in the given order and keep the smaller last one") {
  const Split split = counting_split(7);
  Batches batches(split, 2, 3);
  CHECK(batches.count() == 3);
  const std::vector<std::int64_t> order{6, 0, 5, 1, 4, 2, 3};
  const Batch first = batches.batch(0, order), second = batches.batch(1, order);
  CHECK(to_vector<float>(first.images) == std::vector<float>{6, -6, 0, -0.0F, 5, -5});
  CHECK(to_vector<std::int64_t>(second.labels) == std::vector<std::int64_t>{1, 1, 2});
  const Batch last = batches.batch(2, order);
  CHECK(last.images.shape() == Shape{1, 2});
  CHECK(to_vector<std::int64_t>(last.labels) == std::vector<std::int64_t>{0});
  CHECK(to_vector<float>(second.images)[0] == 1);  // the batch before is still there
}

TEST_CASE("a batch larger than the data is the data") {
  const Split split = counting_split(4);
  Batches batches(split, 2, 100);
  CHECK(batches.count() == 1);
  CHECK(batches.batch(0, std::vector<std::int64_t>{0, 1, 2, 3}).images.shape() == Shape{4, 2});
}

TEST_CASE("training reports every step in order, every epoch, and learns") {
  const Dataset data = load_dataset("synthetic:1000x64", 1);
  const Recorded recorded = train_synthetic(data, 0.1, {.epochs = 4, .batch_size = 64, .seed = 2}, false);
  const auto steps_per_epoch = static_cast<std::int64_t>((data.train.labels.size() + 63) / 64);
  REQUIRE(recorded.steps.size() == static_cast<std::size_t>(4 * steps_per_epoch));
  for (std::size_t i = 0; i < recorded.steps.size(); ++i) {
    CHECK(recorded.steps[i].step == static_cast<std::int64_t>(i));
    CHECK(recorded.steps[i].epoch == static_cast<std::int64_t>(i) / steps_per_epoch + 1);
  }
  REQUIRE(recorded.epochs.size() == 4);
  CHECK(recorded.epochs[3].train_loss < 0.7 * recorded.epochs[0].train_loss);
  CHECK(recorded.epochs[3].train_accuracy > recorded.epochs[0].train_accuracy);

  // The epoch's loss is the mean over rows of the steps' losses.
  double sum = 0;
  const auto rows = static_cast<std::int64_t>(data.train.labels.size());
  for (std::int64_t step = 0; step < steps_per_epoch; ++step) {
    sum += recorded.steps[static_cast<std::size_t>(step)].loss *
           static_cast<double>(std::min<std::int64_t>(64, rows - 64 * step));
  }
  CHECK(recorded.epochs[0].train_loss == Approx(sum / static_cast<double>(rows)));
}

TEST_CASE("training on three devices gives one device's losses, and a second run the same bits") {
  const Dataset data = load_dataset("synthetic:500x8", 1);
  const TrainingOptions options{.epochs = 2, .batch_size = 50, .seed = 2};
  const Recorded alone = train_synthetic(data, 0.05, options, false),
                 spread = train_synthetic(data, 0.05, options, true),
                 again = train_synthetic(data, 0.05, options, true);
  for (std::size_t i = 0; i < alone.steps.size(); ++i) {
    CHECK(spread.steps[i].loss == Approx(alone.steps[i].loss).epsilon(1e-5));
    CHECK(again.steps[i].loss == spread.steps[i].loss);
  }
}

TEST_CASE("accuracy is the fraction of rows whose largest logit is the label's") {
  // logits = images: the larger of two columns wins.
  struct Same {
    void visit(Visitor&) {}
  } module;
  const Split split{{0, 1, 1, 0, 3, 2, 5, 9, 2, 1}, {1, 0, 1, 1, 0}};  // right, right, wrong, right, right
  Mlp unused({1, 1});
  Sgd optimizer(parameters(unused));
  const Trainee trainee{module, optimizer, [](const Tensor& images) { return to(images, Device(1)); }, Device(1)};
  CHECK(accuracy(split, 2, trainee, 2) == Approx(0.8));
  CHECK(accuracy(Split{}, 2, trainee, 2) == 0);
}

TEST_CASE("a loss that is no longer finite ends training with the step and epoch") {
  const Dataset data = load_dataset("synthetic:200x8", 1);
  CHECK_THROWS_WITH(train_synthetic(data, 1e30, {.epochs = 3, .batch_size = 20, .seed = 2}, false),
                    Contains("the loss became") && Contains("(epoch 1); a smaller learning rate usually cures it"));
}
