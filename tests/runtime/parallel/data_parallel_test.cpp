// SPDX-License-Identifier: Apache-2.0
// DataParallel against one device.
#include "runtime/parallel/data_parallel.h"

#include <catch2/catch.hpp>
#include <map>

#include "runtime/autograd/backward.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/sgd.h"
#include "runtime/tensor/copy.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;

TEST_CASE("outputs, gradients and a step equal one device's for every list of ids, batch size and way to run") {
  for (const std::vector<int>& ids : {std::vector<int>{0}, {0, 1}, {1, 0}, {2, 0, 1}, {0, 1, 2, 3}, {3, 1}}) {
    for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers, ParallelApply::measure}) {
      for (const std::int64_t rows : {1, 2, 3, 5, 8, 9, 17}) {
        Net alone = seeded_on<Net>(Device(ids[0])), wrapped = seeded_on<Net>(Device(ids[0]));
        Sgd alone_sgd(parameters(alone), {.learning_rate = 0.1, .momentum = 0.9});
        Sgd wrapped_sgd(parameters(wrapped), {.learning_rate = 0.1, .momentum = 0.9});
        DataParallel parallel(wrapped, ids, with_mode(mode));
        for (int step = 0; step < 3; ++step) {
          INFO("ids " << ids.size() << " from " << ids[0] << ", rows " << rows << ", step " << step);
          const Tensor images = numbers({rows, 6}, step + 1), targets = to(labels(rows, 4), Device(ids[0]));
          const Tensor expected = alone(to(images, Device(ids[0]))), output = parallel(images);
          REQUIRE(output.device() == Device(ids[0]));
          REQUIRE(largest_difference(values_of(output), values_of(expected)) < kTolerance);
          alone_sgd.zero_grad();
          wrapped_sgd.zero_grad();
          cross_entropy(expected, targets).backward();
          cross_entropy(output, targets).backward();
          REQUIRE(gradient_difference(alone, wrapped) < kTolerance);
          alone_sgd.step();
          wrapped_sgd.step();
        }
        CHECK(largest_difference(values_of(alone.first.weight), values_of(wrapped.first.weight)) < kTolerance);
      }
    }
  }
}

TEST_CASE("gradients add up over two backwards without zero_grad") {
  Net alone = seeded_on<Net>(Device(0)), wrapped = seeded_on<Net>(Device(0));
  DataParallel parallel(wrapped, {0, 1, 2});
  for (int step = 0; step < 2; ++step) {
    const Tensor images = numbers({7, 6}, step);
    sum(alone(to(images, Device(0)))).backward();
    sum(parallel(images)).backward();
  }
  CHECK(gradient_difference(alone, wrapped) < kTolerance);
}

TEST_CASE("two forwards in one graph and a penalty on a parameter sum up as on one device") {
  Net alone = seeded_on<Net>(Device(1)), wrapped = seeded_on<Net>(Device(1));
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    zero_grad(alone);
    zero_grad(wrapped);
    DataParallel parallel(wrapped, {1, 0, 3}, with_mode(mode));
    const Tensor a = numbers({5, 6}, 1), b = numbers({8, 6}, 2);
    const auto loss = [&](const Tensor& of_a, const Tensor& of_b, const Net& net) {
      return sum(of_a) + sum(square(of_b)) + sum(square(net.first.weight)) * 0.5;
    };
    loss(alone(to(a, Device(1))), alone(to(b, Device(1))), alone).backward();
    loss(parallel(a), parallel(b), wrapped).backward();
    CHECK(gradient_difference(alone, wrapped) < kTolerance);
  }
}

TEST_CASE("an input on a device that requires a gradient gets it, also from replicas elsewhere") {
  Net alone = seeded_on<Net>(Device(0)), wrapped = seeded_on<Net>(Device(0));
  DataParallel parallel(wrapped, {0, 1, 2, 3});
  for (const Device home : {Device(0), Device(2)}) {
    const Tensor x = to(numbers({9, 6}), Device(0)), y = to(numbers({9, 6}), home);
    x.set_requires_grad();
    y.set_requires_grad();
    sum(square(alone(x))).backward();
    sum(square(parallel(y))).backward();
    REQUIRE(y.grad().defined());
    CHECK(y.grad().device() == home);
    CHECK(largest_difference(values_of(x.grad()), values_of(y.grad())) < kTolerance);
  }
}

TEST_CASE("the output goes to output_device, and backward finds its way back") {
  Net alone = seeded_on<Net>(Device(0)), wrapped = seeded_on<Net>(Device(0));
  DataParallelOptions options;
  options.output_device = Device(3);
  for (const std::vector<int>& ids : {std::vector<int>{0, 1}, {0}}) {
    zero_grad(alone);
    zero_grad(wrapped);
    DataParallel parallel(wrapped, ids, options);
    const Tensor x = numbers({4, 6});
    const Tensor output = parallel(x);
    CHECK(output.device() == Device(3));
    sum(output).backward();
    sum(alone(to(x, Device(0)))).backward();
    CHECK(gradient_difference(alone, wrapped) < kTolerance);
  }
}

TEST_CASE("splitting along dimension 1 joins along dimension 1") {
  struct Doubler {
    Parameter scale{full({1}, 2, DType::f64, Device::host())};
    void visit(Visitor& member) { member("scale", scale); }
    Tensor operator()(const Tensor& x) const { return x * scale; }
  } module;
  to(module, Device(0));
  for (const int dim : {1, -1}) {
    DataParallelOptions options;
    options.dim = dim;
    DataParallel parallel(module, {0, 1, 2}, options);
    const Tensor x = numbers({4, 7});
    const Tensor output = parallel(x);
    CHECK(output.shape() == Shape{4, 7});
    std::vector<double> expected = values_of(x);
    for (double& value : expected) value *= 2;
    CHECK(values_of(output) == expected);
  }
}

TEST_CASE("a parameter that no replica uses keeps no gradient, one that some use gets the sum of those") {
  struct Sometimes {
    Linear always{3, 3, true, DType::f64}, sometimes{3, 3, true, DType::f64}, never{3, 3, true, DType::f64};
    void visit(Visitor& member) {
      member("always", always);
      member("sometimes", sometimes);
      member("never", never);
    }
    Tensor operator()(const Tensor& x) const {
      const Tensor y = always(x);
      return x.size(0) < 3 ? sometimes(y) : y;  // 8 rows on 3 devices: 3, 3, 2
    }
  };
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 20}) {
    Sometimes module = seeded_on<Sometimes>(Device(0));
    DataParallelOptions options;
    options.bucket_bytes = bucket_bytes;
    DataParallel parallel(module, {0, 1, 2}, options);
    const Tensor x = numbers({8, 3});
    for (int round = 0; round < 2; ++round) {
      zero_grad(module);
      sum(parallel(x)).backward();
      CHECK_FALSE(module.never.weight.grad().defined());
      REQUIRE(module.sometimes.bias.grad().defined());
      CHECK(values_of(module.sometimes.bias.grad()) == std::vector<double>{2, 2, 2});
      Sometimes copy = clone(module);
      const Tensor rows = to(x, Device(0));
      (sum(copy(narrow(rows, 0, 0, 6))) + sum(copy(narrow(rows, 0, 6, 2)))).backward();
      CHECK(gradient_difference(module, copy) < kTolerance);
    }
  }
}

TEST_CASE("frozen parameters get no gradient and are sent to the replicas all the same") {
  Net alone = seeded_on<Net>(Device(0)), wrapped = seeded_on<Net>(Device(0));
  for (Net* net : {&alone, &wrapped}) net->first.weight.set_requires_grad(false);
  DataParallel parallel(wrapped, {0, 1});
  const Tensor x = numbers({6, 6});
  sum(square(parallel(x))).backward();
  sum(square(alone(to(x, Device(0))))).backward();
  CHECK_FALSE(wrapped.first.weight.grad().defined());
  CHECK(gradient_difference(alone, wrapped) < kTolerance);
}

TEST_CASE("tied weights stay tied in every replica") {
  struct Tied {
    Linear in{4, 4, true, DType::f64}, out{4, 4, true, DType::f64};
    Tied() { out.weight = in.weight; }
    void visit(Visitor& member) {
      member("in", in);
      member("out", out);
    }
    Tensor operator()(const Tensor& x) const { return out(tanh(in(x))); }
  };
  Tied alone = seeded_on<Tied>(Device(0)), wrapped = seeded_on<Tied>(Device(0));
  DataParallel parallel(wrapped, {0, 1, 2});
  const Tensor x = numbers({7, 4});
  sum(square(parallel(x))).backward();
  sum(square(alone(to(x, Device(0))))).backward();
  CHECK(parameters(wrapped).size() == 3);
  CHECK(gradient_difference(alone, wrapped) < kTolerance);
}

TEST_CASE("buffers that replica 0 writes stay, those of other replicas do not reach the module") {
  struct Normed {
    BatchNorm1d norm{3, {.dtype = DType::f64}};
    void visit(Visitor& member) { member("norm", norm); }
    Tensor operator()(const Tensor& x) const { return norm(x); }
  };
  Normed alone = seeded_on<Normed>(Device(0)), wrapped = seeded_on<Normed>(Device(0));
  DataParallel parallel(wrapped, {0, 1});
  const Tensor x = numbers({8, 3});
  for (int step = 0; step < 3; ++step) {
    (void)parallel(x);
    (void)alone(to(narrow(x, 0, 0, 4), Device(0)));
    CHECK(values_of(wrapped.norm.running_mean) == values_of(alone.norm.running_mean));
    CHECK(values_of(wrapped.norm.running_var) == values_of(alone.norm.running_var));
  }
  CHECK(to_vector<std::int64_t>(wrapped.norm.num_batches_tracked) == std::vector<std::int64_t>{3});
  eval(wrapped);
  eval(alone);
  CHECK(largest_difference(values_of(parallel(x)), values_of(alone(to(x, Device(0))))) < kTolerance);
}

TEST_CASE("what is written to a parameter between forwards reaches all replicas") {
  Net module = seeded_on<Net>(Device(0));
  DataParallel parallel(module, {0, 1, 2, 3});
  const Tensor x = numbers({8, 6});
  (void)parallel(x);
  {
    const NoGrad no_graph;
    copy(module.second.bias, to(numbers({4}, 5), Device(0)));
  }
  CHECK(largest_difference(values_of(parallel(x)), values_of(module(to(x, Device(0))))) < kTolerance);
}

TEST_CASE("nothing is sent to the replicas while no parameter is written") {
  Net module = seeded_on<Net>(Device(0));
  FlatReplicas replicas(parameters(module), {Device(0), Device(1), Device(2)}, 1);
  Communicator& communicator = Communicator::of({Device(0), Device(1), Device(2)});
  CHECK(replicas.send_changes({0, 1, 2}, communicator) == 2 * replicas.layout().bytes());
  CHECK(replicas.send_changes({0, 1, 2}, communicator) == 0);
  module.first.bias.count_write();
  CHECK(replicas.send_changes({0, 1, 2}, communicator) == 2 * FlatLayout::kAlignmentBytes);
  CHECK(replicas.send_changes({0, 1, 2}, communicator) == 0);
  communicator.wait_for_collectives();
}

TEST_CASE("no graph is built under NoGrad, and replicas see it") {
  Net module = seeded_on<Net>(Device(0));
  DataParallel parallel(module, {0, 1}, with_mode(ParallelApply::workers));
  const NoGrad no_graph;
  CHECK_FALSE(parallel(numbers({4, 6})).requires_grad());
}

namespace {

using Nested = std::map<std::string, std::vector<Tensor>>;

struct Mixed {
  Parameter scale{full({1}, 3, DType::f64, Device::host())};
  void visit(Visitor& member) { member("scale", scale); }
  std::pair<Nested, int> operator()(const std::pair<Tensor, std::optional<Tensor>>& x, double factor,
                                    const Nested& more) const {
    return {{{"scaled", {x.first * scale, *x.second * factor}}, {"more", more.at("more")}}, 5};
  }
};

std::vector<double> times(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

}  // namespace

TEST_CASE("inputs and outputs may be pairs, maps, vectors and optionals, everything else goes whole to each replica") {
  Mixed module;
  to(module, Device(0));
  DataParallel parallel(module, {0, 1, 2});
  const Tensor a = numbers({7, 2}, 1), b = numbers({7}, 2), c = numbers({7, 1}, 3);
  const auto [nested, five] = parallel(std::pair<Tensor, std::optional<Tensor>>{a, b}, 10.0, Nested{{"more", {c}}});
  CHECK(five == 5);
  REQUIRE(nested.at("scaled").size() == 2);
  CHECK(nested.at("scaled")[0].shape() == Shape{7, 2});
  CHECK(values_of(nested.at("scaled")[0]) == times(values_of(a), 3));
  CHECK(values_of(nested.at("scaled")[1]) == times(values_of(b), 10));
  CHECK(values_of(nested.at("more")[0]) == values_of(c));
}

TEST_CASE("inputs of different sizes along the split dimension are refused by name") {
  Mixed module;
  to(module, Device(0));
  DataParallel parallel(module, {0, 1});
  CHECK_THROWS_WITH(parallel(std::pair<Tensor, std::optional<Tensor>>{numbers({7, 2}), numbers({6})}, 1.0, Nested{}),
                    "scatter: input[0][0] has shape [7, 2] and input[0][1] has shape [6]; both are split along "
                    "dimension 0 and must have the same size there (unsplit(x) gives every replica the whole)");
}

TEST_CASE("a second derivative passes through DataParallel: the gradient penalty of a linear layer") {
  struct OneLayer {
    Linear layer{4, 1, true, DType::f64};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const { return layer(x); }
  };
  OneLayer alone = seeded_on<OneLayer>(Device(0)), wrapped = seeded_on<OneLayer>(Device(0));
  DataParallel parallel(wrapped, {0, 1});
  const auto penalty = [](auto&& model, const Tensor& x) {
    backward(sum(square(model(x))), {}, {.create_graph = true});
    const Tensor gradient = x.grad();
    x.clear_grad();
    return sum(square(gradient));
  };
  const Tensor x = to(numbers({6, 4}), Device(0)), y = to(numbers({6, 4}), Device(0));
  x.set_requires_grad();
  y.set_requires_grad();
  const Tensor of_alone = penalty(alone, x), of_wrapped = penalty(parallel, y);
  zero_grad(alone);
  zero_grad(wrapped);
  of_alone.backward();
  of_wrapped.backward();
  CHECK(gradient_difference(alone, wrapped) < kTolerance);
}
