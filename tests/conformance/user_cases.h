// SPDX-License-Identifier: Apache-2.0
// Modules and inputs of the cases that users of data parallelism reported. Each test's tag has the number of its case.
#pragma once

#include "runtime/nn/init.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/parallel/test_nets.h"

namespace fanout::test {

/// A Linear with weights 1 and bias 0 on `device`, in f64: integers stay exact.
inline Linear ones_linear(std::int64_t in, std::int64_t out, Device device) {
  Linear layer(in, out, true, DType::f64);
  init::ones(layer.weight);
  init::zeros(layer.bias);
  to(layer, device);
  return layer;
}

/// Linear, ReLU, Linear in f64.
struct Mlp {
  Linear fc1, fc2;

  Mlp(std::int64_t in, std::int64_t hidden, std::int64_t out)
      : fc1(in, hidden, true, DType::f64), fc2(hidden, out, true, DType::f64) {}
  void visit(Visitor& member) {
    member("fc1", fc1);
    member("fc2", fc2);
  }
  Tensor operator()(const Tensor& x) const { return fc2(relu(fc1(x))); }
};

/// The same weights every time.
inline Mlp mlp(std::int64_t in, std::int64_t hidden, std::int64_t out, Device device) {
  manual_seed(11);
  Mlp module(in, hidden, out);
  to(module, device);
  return module;
}

/// [rows, columns] on the host; every element of row r is r.
inline Tensor numbered_rows(std::int64_t rows, std::int64_t columns) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<double>(i / columns));
  return from_vector(values, {rows, columns});
}

inline std::vector<double> repeated(std::size_t count, double value) {
  return std::vector<double>(count, value);
}

inline int current_device() {
  int device = -1;
  FANOUT_CHECK(cudaGetDevice(&device));
  return device;
}

/// The devices of `ids`.
inline std::vector<Device> devices_of(const std::vector<int>& ids) {
  std::vector<Device> devices;
  for (const int id : ids) devices.emplace_back(id);
  return devices;
}

inline const std::vector<ParallelApply>& all_modes() {
  static const std::vector<ParallelApply> modes{ParallelApply::inline_, ParallelApply::workers, ParallelApply::measure};
  return modes;
}

/// An attribute of `device`'s memory pool.
inline std::uint64_t pool_bytes(Device device, cudaMemPoolAttr attribute) {
  cudaMemPool_t pool = nullptr;
  FANOUT_CHECK(cudaDeviceGetDefaultMemPool(&pool, device.index()));
  std::uint64_t bytes = 0;
  FANOUT_CHECK(cudaMemPoolGetAttribute(pool, attribute, &bytes));
  return bytes;
}

/// Forgets the peak of `device`'s pool: the next one is counted from what is in use now.
inline void reset_peak(Device device) {
  cudaMemPool_t pool = nullptr;
  FANOUT_CHECK(cudaDeviceGetDefaultMemPool(&pool, device.index()));
  std::uint64_t zero = 0;
  FANOUT_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
}

}  // namespace fanout::test
