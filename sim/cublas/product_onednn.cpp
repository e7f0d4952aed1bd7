// SPDX-License-Identifier: Apache-2.0
// Products by oneDNN, held to one OpenMP thread: every lane computes its own, and a team per lane would only fight.
#include "sim/cublas/product.h"

#if defined(FANOUT_SIM_ONEDNN)
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>
#endif

namespace sim::blas {

#if defined(FANOUT_SIM_ONEDNN)

namespace {

/// The number of threads is a setting of the calling thread, so lanes do not disturb each other or the program.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// oneDNN's matmul for products of one size, made once. Of x W', a layer's forward, it makes 107 to 110 GFLOP/s where
/// dnnl_sgemm makes 99 to 107 (128 to 1024 rows, 512 x 512), and 94 against 67 at 32 rows; of the other products no
/// more.
class TransposedProduct {
 public:
  explicit TransposedProduct(const Product<float>& p)
      : size_(p), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    const auto matrix = [](int rows, int columns, memory::dims strides) {
      return memory::desc({rows, columns}, memory::data_type::f32, strides);
    };
    const memory::desc x = matrix(p.n, p.k, {p.ldb, 1}), w = matrix(p.k, p.m, {1, p.lda}),
                       y = matrix(p.n, p.m, {p.ldc, 1});
    product_ = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, w, y), engine_));
    arguments_ = {{DNNL_ARG_SRC, memory(x, engine_, nullptr)},
                  {DNNL_ARG_WEIGHTS, memory(w, engine_, nullptr)},
                  {DNNL_ARG_DST, memory(y, engine_, nullptr)}};
  }

  bool fits(const Product<float>& p) const {
    return p.m == size_.m && p.n == size_.n && p.k == size_.k && p.lda == size_.lda && p.ldb == size_.ldb &&
           p.ldc == size_.ldc;
  }

  void run(const Product<float>& p) {
    arguments_[DNNL_ARG_SRC].set_data_handle(const_cast<float*>(p.b));
    arguments_[DNNL_ARG_WEIGHTS].set_data_handle(const_cast<float*>(p.a));
    arguments_[DNNL_ARG_DST].set_data_handle(p.c);
    product_.execute(stream_, arguments_);
  }

 private:
  Product<float> size_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

/// Row-major x W', without a factor and written over what was there.
bool is_transposed_product(const Product<float>& p) {
  return p.transpose_a && !p.transpose_b && p.alpha == 1 && p.beta == 0;
}

/// False where oneDNN refused it.
bool multiply_transposed(const Product<float>& p) {
  constexpr std::size_t kMostSizes = 32;
  thread_local std::vector<TransposedProduct> known;
  try {
    for (TransposedProduct& product : known) {
      if (!product.fits(p)) continue;
      product.run(p);
      return true;
    }
    if (known.size() == kMostSizes) known.clear();  // sizes that never repeat are not worth remembering
    known.emplace_back(p).run(p);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace

bool multiply_with_onednn(const Product<float>& p) {
  const OneThread guard;
  if (is_transposed_product(p) && multiply_transposed(p)) return true;
  // oneDNN is row-major, and a column-major matrix is its row-major transpose: so C' = op(B)' op(A)'.
  return dnnl_sgemm(p.transpose_b ? 'T' : 'N', p.transpose_a ? 'T' : 'N', p.n, p.m, p.k, p.alpha, p.b, p.ldb, p.a,
                    p.lda, p.beta, p.c, p.ldc) == dnnl_success;
}

#else

bool multiply_with_onednn(const Product<float>&) {
  return false;
}

#endif

}  // namespace sim::blas
