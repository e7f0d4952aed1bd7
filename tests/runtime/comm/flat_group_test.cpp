// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/flat_group.h"

#include <catch2/catch.hpp>

using namespace fanout;
using namespace fanout::comm;

namespace {

const Device kHost = Device::host();

std::vector<Tensor> of_bytes(const std::vector<std::int64_t>& sizes) {
  std::vector<Tensor> tensors;
  for (const std::int64_t size : sizes) tensors.push_back(zeros({size}, DType::u8, kHost));
  return tensors;
}

}  // namespace

TEST_CASE("what is broadcast is grouped until a group holds the limit, so the last tensor may exceed it") {
  CHECK(groups_closed_at(of_bytes({4, 4, 4, 4, 4}), 10) == std::vector<Numbers>{{0, 1, 2}, {3, 4}});
  CHECK(groups_closed_at(of_bytes({4, 6, 4}), 10) == std::vector<Numbers>{{0, 1}, {2}});
  CHECK(groups_closed_at(of_bytes({4, 100, 4}), 10) == std::vector<Numbers>{{0, 1}, {2}});
  CHECK(groups_closed_at(of_bytes({1, 1}), 0) == std::vector<Numbers>{{0}, {1}});
  CHECK(groups_closed_at({}, 10).empty());
}

TEST_CASE("what is reduced is grouped up to the limit, and a larger tensor goes alone") {
  CHECK(groups_within(of_bytes({4, 4, 4, 4, 4}), 10) == std::vector<Numbers>{{0, 1}, {2, 3}, {4}});
  CHECK(groups_within(of_bytes({4, 6, 4}), 10) == std::vector<Numbers>{{0, 1}, {2}});
  CHECK(groups_within(of_bytes({4, 100, 4}), 10) == std::vector<Numbers>{{0}, {1}, {2}});
  CHECK(groups_within(of_bytes({0, 100}), 10) == std::vector<Numbers>{{0, 1}});
}

TEST_CASE("each dtype has its own open group") {
  std::vector<Tensor> tensors = of_bytes({4, 4, 4});
  tensors.insert(tensors.begin() + 1, zeros({1}, DType::f32, kHost));
  tensors.push_back(zeros({1}, DType::f32, kHost));
  CHECK(groups_closed_at(tensors, 8) == std::vector<Numbers>{{0, 2}, {1, 4}, {3}});
  CHECK(groups_within(tensors, 8) == std::vector<Numbers>{{0, 2}, {1, 4}, {3}});
}

TEST_CASE("a packed group has its members in place and zeros between them, and one dense member is not copied") {
  const Device device(1);
  const std::vector<Tensor> tensors = {full({3}, 5, DType::f32, device), full({2, 2}, 6, DType::f32, device)};
  const FlatGroup group(tensors, {0, 1});
  const Tensor packed = group.packed(tensors);
  CHECK(to_vector<float>(group.part(packed, 0)) == std::vector<float>(3, 5));
  CHECK(to_vector<float>(group.part(packed, 1)) == std::vector<float>(4, 6));
  const std::vector<float> all = to_vector<float>(packed);
  float sum = 0;
  for (const float value : all) sum += value;
  CHECK(all.size() == 128);  // twice 256 bytes
  CHECK(sum == 3 * 5 + 4 * 6);
  CHECK(FlatGroup(tensors, {1}).packed(tensors).raw_data() == tensors[1].raw_data());
}
