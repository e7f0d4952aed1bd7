// SPDX-License-Identifier: Apache-2.0
// Modules as users write them, for the tests.
#pragma once

#include "runtime/nn/activation.h"
#include "runtime/nn/dropout.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/sequential.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/loss.h"
#include "runtime/tensor/copy.h"

namespace fanout::testing {

struct Residual {
  Linear up{8, 16}, down{16, 8};
  Dropout drop{.p = 0.5f};
  void visit(Visitor& member) {
    member("up", up);
    member("down", down);
    member("drop", drop);
  }
  Tensor operator()(const Tensor& x) { return x + down(drop(relu(up(x)))); }
};

// One weight in two layers.
struct Tied {
  Linear in{8, 8}, out{8, 8};
  Tied() { out.weight = in.weight; }
  void visit(Visitor& member) {
    member("in", in);
    member("out", out);
  }
  Tensor operator()(const Tensor& x) { return out(relu(in(x))); }
};

// Forgets its second layer.
struct Forgetful {
  Linear a{8, 8}, b{8, 8};
  void visit(Visitor& member) { member("a", a); }
  Tensor operator()(const Tensor& x) { return b(a(x)); }
};

// The same, but with a constructor, so that its members cannot be listed.
struct ForgetfulClass {
  ForgetfulClass() {}
  Linear a{8, 8}, b{8, 8};
  void visit(Visitor& member) { member("a", a); }
  Tensor operator()(const Tensor& x) { return b(a(x)); }
};

struct Stack {
  std::vector<Linear> layers{Linear(8, 8), Linear(8, 8)};
  std::array<LayerNorm, 2> norms{LayerNorm(8), LayerNorm(8)};
  std::optional<Linear> head;
  void visit(Visitor& member) {
    member("layers", layers);
    member("norms", norms);
    member("head", head);
  }
  Tensor operator()(Tensor x) {
    for (Linear& layer : layers) x = layer(x);
    return head ? (*head)(norms[1](norms[0](x))) : x;
  }
};

inline Tensor rows(std::int64_t count, std::int64_t width, Device device) {
  std::vector<float> values(static_cast<std::size_t>(count * width));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  return copied_to(from_vector(values, {count, width}), device);
}

inline std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> result;
  for (const NamedTensor& entry : tensors) result.push_back(entry.name);
  return result;
}

// The text of what `call` throws, "" if it throws nothing.
template <class Call>
std::string thrown_text(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace fanout::testing
