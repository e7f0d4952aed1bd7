// SPDX-License-Identifier: Apache-2.0
// Products by Eigen, on the calling thread only.
#ifndef EIGEN_DONT_PARALLELIZE
#define EIGEN_DONT_PARALLELIZE
#endif
#include <Eigen/Core>

#include "sim/cublas/product.h"

namespace sim::blas {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

template <class T>
using ConstView = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T, class A, class B>
void multiply_views(const Product<T>& p, const A& a, const B& b) {
  Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>> c(p.c, p.m, p.n, Eigen::OuterStride<>(p.ldc));
  scale(p);  // Eigen's own setZero and *= of a strided view take longer than a small product
  c.noalias() += p.alpha * (a * b);
}

}  // namespace

template <class T>
void multiply_with_eigen(const Product<T>& p) {
  const ConstView<T> a(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, Eigen::OuterStride<>(p.lda));
  const ConstView<T> b(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, Eigen::OuterStride<>(p.ldb));
  if (p.transpose_a && p.transpose_b) return multiply_views(p, a.transpose(), b.transpose());
  if (p.transpose_a) return multiply_views(p, a.transpose(), b);
  if (p.transpose_b) return multiply_views(p, a, b.transpose());
  multiply_views(p, a, b);
}

template void multiply_with_eigen(const Product<float>&);
template void multiply_with_eigen(const Product<double>&);

}  // namespace sim::blas
