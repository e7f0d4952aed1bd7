// SPDX-License-Identifier: Apache-2.0
// What torch's own tests ask of a wrapped layer for each floating type, with arguments by position and by name.
#include <catch2/catch.hpp>
#include <map>
#include <tuple>
#include <variant>

#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

template <class T>
Linear layer_on_first_device() {
  manual_seed(11);
  Linear layer(10, 5, true, kDTypeOf<T>);
  to(layer, Device(0));
  return layer;
}

}  // namespace

TEMPLATE_TEST_CASE("a wrapped layer gives the plain output on the first device, for each floating type",
                   "[torch 9.1.32 test_data_parallel_module]", float, double) {
  Linear layer = layer_on_first_device<TestType>();
  const Tensor x = numbers_of<TestType>({20, 10}, Device(0));
  for (const std::vector<int>& ids : {std::vector<int>{}, {0, 1}, {0}}) {
    DataParallel parallel(layer, ids);
    const Tensor output = parallel(x);
    CHECK(output.device() == Device(0));
    CHECK(difference(output, layer(x)) < kRounding<TestType>);
  }
}

namespace {

// C++ names no arguments at a call: a struct does, and travels through scatter like torch's keyword arguments.
struct Named {
  Tensor input;
  void visit(TensorVisitor& member) { member("input", input); }
};

using Part = std::variant<Tensor, std::vector<Tensor>, std::map<std::string, Tensor>, std::tuple<>>;
using Parts = std::map<std::string, Part>;

template <class Input>
struct Reads {
  Linear layer;
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Input& input) const {
    if constexpr (std::is_same_v<Input, Named>) {
      return layer(input.input);
    } else {
      return layer(std::get<Tensor>(input.at("data")));
    }
  }
};

template <class T>
void check_reads_parts(const Part& unused) {
  Reads<Parts> module{layer_on_first_device<T>()};
  const Tensor x = numbers_of<T>({20, 10}, Device(0));
  DataParallel parallel(module);
  const Tensor output = parallel(Parts{{"data", x}, {"unused", unused}});
  CHECK(output.device() == Device(0));
  CHECK(difference(output, module.layer(x)) < kRounding<T>);
}

}  // namespace

TEMPLATE_TEST_CASE("an argument by name, in a struct, gives the plain output on the first device",
                   "[torch 9.1.33 test_data_parallel_module_kwargs_only]", float, double) {
  Reads<Named> module{layer_on_first_device<TestType>()};
  const Tensor x = numbers_of<TestType>({20, 10}, Device(0));
  DataParallel parallel(module);
  const Tensor output = parallel(Named{x});
  CHECK(output.device() == Device(0));
  CHECK(difference(output, module.layer(x)) < kRounding<TestType>);
}

TEMPLATE_TEST_CASE("an empty vector beside a tensor in a map goes to every replica",
                   "[torch 9.1.34 test_data_parallel_module_kwargs_only_empty_list]", float, double) {
  check_reads_parts<TestType>(std::vector<Tensor>());
}

TEMPLATE_TEST_CASE("an empty map beside a tensor in a map goes to every replica",
                   "[torch 9.1.35 test_data_parallel_module_kwargs_only_empty_dict]", float, double) {
  check_reads_parts<TestType>(std::map<std::string, Tensor>());
}

TEMPLATE_TEST_CASE("an empty tuple beside a tensor in a map goes to every replica",
                   "[torch 9.1.36 test_data_parallel_module_kwargs_only_empty_tuple]", float, double) {
  check_reads_parts<TestType>(std::tuple<>());
}
