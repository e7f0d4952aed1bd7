// SPDX-License-Identifier: Apache-2.0
// Outputs of DataParallel: structures, what may not differ between replicas, and outputs that stay apart.
#include <catch2/catch.hpp>
#include <functional>
#include <map>

#include "runtime/autograd/backward.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;

namespace {

struct Prediction {
  Tensor logits;
  std::vector<Tensor> aux;
  std::map<std::string, Tensor> named;
  int classes = 4;
  void visit(TensorVisitor& member) {
    member("logits", logits);
    member("aux", aux);
    member("named", named);
    member("classes", classes);
  }
};

// Returns what `make` makes of the net's output.
template <class Result>
struct Shaping {
  Net net;
  std::function<Result(const Tensor&)> make;
  explicit Shaping(std::function<Result(const Tensor&)> function) : make(std::move(function)) {
    manual_seed(11);
    net = Net();
    to(*this, Device(0));
  }
  void visit(Visitor& member) { member("net", net); }
  Result operator()(const Tensor& x) const { return make(net(x)); }
};

}  // namespace

TEST_CASE("a struct that names its tensors comes back as that struct") {
  Shaping<Prediction> module([](const Tensor& y) {
    return Prediction{y, {y * 2.0, y * 3.0}, {{"square", square(y)}}, 4};
  });
  DataParallel parallel(module, {0, 1, 2});
  const Tensor x = numbers({7, 6});
  const Prediction joined = parallel(x), expected = module(to(x, Device(0)));
  CHECK(joined.classes == 4);
  CHECK(largest_difference(values_of(joined.logits), values_of(expected.logits)) < kTolerance);
  REQUIRE(joined.aux.size() == 2);
  CHECK(largest_difference(values_of(joined.aux[1]), values_of(expected.aux[1])) < kTolerance);
  CHECK(largest_difference(values_of(joined.named.at("square")), values_of(expected.named.at("square"))) < kTolerance);
}

TEST_CASE("outputs that differ in structure, key, shape, dtype or plain value are refused with path and replicas") {
  const Tensor x = numbers({5, 6});  // chunks of 3 and 2
  const auto is_second = [](const Tensor& y) { return y.size(0) == 2; };
  const auto refuses = [&]<class Result>(std::function<Result(const Tensor&)> make, const std::string& text) {
    Shaping<Result> module(std::move(make));
    CHECK_THROWS_WITH(DataParallel(module, {0, 1})(x), text);
  };
  const std::string structure = " in replica 1 on cuda:1; all replicas must return the same structure";
  refuses(std::function([&](const Tensor& y) {
            return Prediction{y, std::vector<Tensor>(is_second(y) ? 3 : 2, y), {}, 4};
          }),
          "gather: output.aux has 2 elements in replica 0 on cuda:0 and 3" + structure);
  refuses(std::function([&](const Tensor& y) {
            return std::map<std::string, Tensor>{{is_second(y) ? "b" : "a", y}};
          }),
          "gather: output has key \"a\" in replica 0 on cuda:0 and \"b\"" + structure);
  refuses(std::function([&](const Tensor& y) { return is_second(y) ? std::optional<Tensor>() : std::optional(y); }),
          "gather: output has 1 element in replica 0 on cuda:0 and 0" + structure);
  refuses(std::function([&](const Tensor& y) {
            return std::pair{y, y.size(0)};
          }),
          "gather: output[1] differs between replica 0 on cuda:0 and replica 1 on cuda:1; only tensors are joined: "
          "return a tensor");
  refuses(std::function([&](const Tensor& y) {
            return std::pair{y, transpose(y)};
          }),
          "gather: output[1] has shape [4, 3] (f64) in replica 0 on cuda:0 and [4, 2] (f64) in replica 1 on cuda:1; "
          "dtype and all dimensions but 0 must agree");
  refuses(std::function([&](const Tensor& y) {
            return std::vector{y, is_second(y) ? Tensor() : y};
          }),
          "gather: output[1] is undefined in replica 1 on cuda:1 and defined in another");
  Shaping<Tensor> squeezing([&](const Tensor& y) { return y.size(0) == 1 ? reshape(y, {4}) : y; });
  CHECK_THROWS_WITH(DataParallel(squeezing, {0, 1, 2, 3})(numbers({10, 6})),
                    "gather: output has shape [3, 4] (f64) in replica 0 on cuda:0 and [4] (f64) in replica 3 on "
                    "cuda:3; dtype and all dimensions but 0 must agree; replica 3 had 1 row: a squeeze may have "
                    "removed its batch dimension");
}

TEST_CASE("an output that no replica defines stays undefined") {
  Shaping<std::pair<Tensor, Tensor>> module([](const Tensor& y) { return std::pair{y, Tensor()}; });
  const auto [defined, undefined] = DataParallel(module, {0, 1})(numbers({4, 6}));
  CHECK(defined.size(0) == 4);
  CHECK_FALSE(undefined.defined());
}

TEST_CASE("outputs gathered to the host carry gradients back") {
  Net alone = seeded_on<Net>(Device(0)), wrapped = seeded_on<Net>(Device(0));
  DataParallelOptions options;
  options.output_device = Device::host();
  for (const std::vector<int>& ids : {std::vector<int>{0, 1, 2}, {0}}) {
    zero_grad(alone);
    zero_grad(wrapped);
    DataParallel parallel(wrapped, ids, options);
    const Tensor x = numbers({7, 6});
    const Tensor output = parallel(x);
    CHECK(output.device() == Device::host());
    sum(square(to(output, Device(1)))).backward();
    sum(square(alone(to(x, Device(0))))).backward();
    CHECK(gradient_difference(alone, wrapped) < kTolerance);
  }
}

TEST_CASE("outputs left apart, with a loss for each weighted by its rows, train as the gathered ones") {
  Net alone = seeded_on<Net>(Device(1)), wrapped = seeded_on<Net>(Device(1));
  DataParallel parallel(wrapped, {1, 0, 2});
  const Tensor x = numbers({7, 6}), targets = labels(7, 4);
  const std::vector<Tensor> outputs = parallel.apart(x), pieces = parallel.scatter(targets);
  REQUIRE(outputs.size() == 3);
  REQUIRE(pieces.size() == 3);
  std::vector<Tensor> losses;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CHECK(outputs[i].device() == parallel.devices()[i]);
    losses.push_back(cross_entropy(outputs[i], pieces[i]));
  }
  const Tensor loss = parallel.mean_over_rows(losses);
  const Tensor expected = cross_entropy(alone(to(x, Device(1))), to(targets, Device(1)));
  CHECK(std::abs(item(loss) - item(expected)) < kTolerance);
  loss.backward();
  expected.backward();
  CHECK(gradient_difference(alone, wrapped) < kTolerance);
  CHECK_THROWS_WITH(parallel.mean_over_rows({losses[0]}),
                    "mean_over_rows: 1 means for 3 replicas with rows in the last forward (rows: [3, 3, 1]); give one "
                    "for each");
  CHECK_THROWS_WITH(parallel.mean_over_rows({losses[0], outputs[1], losses[2]}),
                    "mean_over_rows: f64 [3, 4] on cuda:0 is no mean: its shape must be []");
}

TEST_CASE("a DataParallel is moved, switched and exported as the module it wraps") {
  Net module;
  DataParallel parallel(module, {0, 1});
  to(parallel, Device(0));
  CHECK(module.first.weight.device() == Device(0));
  CHECK(named_parameters(parallel)[0].name == "first.weight");
  CHECK(parallel(numbers({4, 6})).size(0) == 4);
}

TEST_CASE("the functional form is one forward of a DataParallel") {
  Net module = seeded_on<Net>(Device(0));
  const Tensor x = numbers({5, 6});
  const Tensor output = data_parallel(module, {0, 1, 2}, {}, x);
  CHECK(largest_difference(values_of(output), values_of(module(to(x, Device(0))))) < kTolerance);
  sum(output).backward();
  CHECK(values_of(module.second.bias.grad()) == std::vector<double>{5, 5, 5, 5});
}
