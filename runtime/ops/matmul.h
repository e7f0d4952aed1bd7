// SPDX-License-Identifier: Apache-2.0
// Matrix products, by cuBLAS. Their backwards write weight and bias gradients straight to where these belong.
//
// f32, f64 or bf16, of one dtype, all on one device. Throws InvalidArgument for other shapes or dtypes, PlacementError
// where devices differ. Products of bf16 are summed in f32, a bias is added in f32, and the result is rounded to bf16
// once. Under Autocast f32 operands are multiplied as bf16, and their gradients are f32.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// a b.
///   a [m, k];  b [k, n];  result [m, n]. A transposed operand is not copied.
Tensor matmul(const Tensor& a, const Tensor& b);

/// x weight^T + bias, as torch.nn.functional.linear.
///   x [..., in];  weight [out, in];  bias [out], or undefined;  result [..., out]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// relu(linear(x, weight, bias)) with bias and ReLU in one pass over memory, in forward and in backward.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace fanout
