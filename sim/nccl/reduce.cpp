// SPDX-License-Identifier: Apache-2.0
// Combines the ranks' buffers in pieces that stay in the first-level cache.
#include "sim/nccl/reduce.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sim::nccl {
namespace {

constexpr std::size_t kPieceBytes = 8192;

/// Integers add and multiply modulo 2^n, without the undefined overflow of the signed types.
template <class T>
struct Wrapping {
  using type = T;
};
template <class T>
requires std::is_integral_v<T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};
template <class T>
using wrapping_t = typename Wrapping<T>::type;

/// bf16 becomes float here and the result is rounded: once for every further rank, as in NCCL's own additions.
template <class T>
struct Add {
  T operator()(T a, T b) const { return static_cast<T>(wrapping_t<T>(a) + wrapping_t<T>(b)); }
};
template <class T>
struct Multiply {
  T operator()(T a, T b) const { return static_cast<T>(wrapping_t<T>(a) * wrapping_t<T>(b)); }
};
template <class T>
struct Maximum {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct Minimum {
  T operator()(T a, T b) const { return b < a ? b : a; }
};

/// What happens to an element before and after the combination; the average is the only one that needs it.
template <class T>
struct Identity {
  T before(T x) const { return x; }
  T after(T x) const { return x; }
};
template <class T>
struct Average {
  static constexpr bool kBefore = !std::is_integral_v<T>;
  explicit Average(std::size_t ranks) : ranks_(static_cast<int>(ranks)), factor_(1.0 / static_cast<double>(ranks)) {}
  T before(T x) const {
    if constexpr (kBefore) return Multiply<T>{}(x, factor_);
    return x;
  }
  T after(T x) const {
    if constexpr (kBefore) return x;
    return static_cast<T>(x / ranks_);
  }
  T ranks_, factor_;
};

/// y = combination of the first `kInputs` inputs, in one loop. y may be any of the inputs, exactly.
template <int kInputs, class T, class Op, class Edge>
void combine(T* y, const T* const* inputs, std::size_t n, Op op, Edge edge) {
  std::array<const T*, kInputs> x;
  std::copy_n(inputs, kInputs, x.begin());
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    T value = edge.before(x[0][i]);
    for (int input = 1; input < kInputs; ++input) value = op(value, edge.before(x[input][i]));
    y[i] = edge.after(value);
  }
}

/// More than four inputs: the running result stays in a local piece, so that y may still be any of the inputs.
template <class T, class Op, class Edge>
void combine_many(T* y, std::span<const T* const> inputs, std::size_t n, Op op, Edge edge) {
  alignas(64) T running[kPieceBytes / sizeof(T)];
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) running[i] = edge.before(inputs[0][i]);
  for (const T* x : inputs.subspan(1)) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < n; ++i) running[i] = op(running[i], edge.before(x[i]));
  }
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) y[i] = edge.after(running[i]);
}

template <class T, class Op, class Edge>
void combine_piece(T* y, std::span<const T* const> inputs, std::size_t n, Op op, Edge edge) {
  switch (inputs.size()) {
    case 1:
      return combine<1>(y, inputs.data(), n, op, edge);
    case 2:
      return combine<2>(y, inputs.data(), n, op, edge);
    case 3:
      return combine<3>(y, inputs.data(), n, op, edge);
    case 4:
      return combine<4>(y, inputs.data(), n, op, edge);
    default:
      return combine_many(y, inputs, n, op, edge);
  }
}

/// The result of a piece goes to the first target; the other targets get a copy while it is in the cache. Every input
/// of the piece has been read by then, so the targets may be inputs.
template <class T, class Op, class Edge>
void reduce_in_pieces(std::span<const void* const> inputs, std::span<void* const> targets, std::size_t count, Op op,
                      Edge edge) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  constexpr std::size_t kMost = 64;
  std::array<const T*, kMost> x;
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    const std::size_t n = std::min(kPiece, count - begin);
    for (std::size_t i = 0; i < inputs.size(); ++i) x[i] = static_cast<const T*>(inputs[i]) + begin;
    T* y = static_cast<T*>(targets[0]) + begin;
    combine_piece<T>(y, std::span<const T* const>(x.data(), inputs.size()), n, op, edge);
    for (void* target : targets.subspan(1)) std::memcpy(static_cast<T*>(target) + begin, y, n * sizeof(T));
  }
}

template <class T>
void reduce_typed(ncclRedOp_t operation, std::span<const void* const> inputs, std::span<void* const> targets,
                  std::size_t count) {
  switch (operation) {
    case ncclSum:
      return reduce_in_pieces<T>(inputs, targets, count, Add<T>{}, Identity<T>{});
    case ncclProd:
      return reduce_in_pieces<T>(inputs, targets, count, Multiply<T>{}, Identity<T>{});
    case ncclMax:
      return reduce_in_pieces<T>(inputs, targets, count, Maximum<T>{}, Identity<T>{});
    case ncclMin:
      return reduce_in_pieces<T>(inputs, targets, count, Minimum<T>{}, Identity<T>{});
    case ncclAvg:
      return reduce_in_pieces<T>(inputs, targets, count, Add<T>{}, Average<T>(inputs.size()));
    default:
      return;
  }
}

}  // namespace

std::size_t size_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

bool can_reduce(ncclDataType_t type) {
  return type != ncclFloat16 && type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

void reduce(ncclDataType_t type, ncclRedOp_t operation, std::span<const void* const> inputs,
            std::span<void* const> targets, std::size_t count) {
  switch (type) {
    case ncclInt8:
      return reduce_typed<std::int8_t>(operation, inputs, targets, count);
    case ncclUint8:
      return reduce_typed<std::uint8_t>(operation, inputs, targets, count);
    case ncclInt32:
      return reduce_typed<std::int32_t>(operation, inputs, targets, count);
    case ncclUint32:
      return reduce_typed<std::uint32_t>(operation, inputs, targets, count);
    case ncclInt64:
      return reduce_typed<std::int64_t>(operation, inputs, targets, count);
    case ncclUint64:
      return reduce_typed<std::uint64_t>(operation, inputs, targets, count);
    case ncclFloat32:
      return reduce_typed<float>(operation, inputs, targets, count);
    case ncclBfloat16:
      return reduce_typed<__nv_bfloat16>(operation, inputs, targets, count);
    case ncclFloat64:
      return reduce_typed<double>(operation, inputs, targets, count);
    default:
      return;
  }
}

void copy_to_all(const void* source, std::span<void* const> targets, std::size_t bytes) {
  const std::size_t piece = targets.size() > 1 ? 2 * kPieceBytes : bytes;
  for (std::size_t begin = 0; begin < bytes; begin += piece) {
    const std::size_t size = std::min(piece, bytes - begin);
    for (void* target : targets) {
      if (target != source)
        std::memcpy(static_cast<char*>(target) + begin, static_cast<const char*>(source) + begin, size);
    }
  }
}

}  // namespace sim::nccl
