// SPDX-License-Identifier: Apache-2.0
// Products by oneDNN, held to one OpenMP thread: every lane computes its own, and a team per lane would only fight.
#include "sim/cublas/product.h"

#if defined(FANOUT_SIM_ONEDNN)
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
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

}  // namespace

bool multiply_with_onednn(const Product<float>& p) {
  const OneThread guard;
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
