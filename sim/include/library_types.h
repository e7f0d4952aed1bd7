// SPDX-License-Identifier: Apache-2.0
// Names of element types, for library calls that take any: those of CUDA's list that the platform knows.
#pragma once

/// A fixed type, so that any other number is a misuse to be answered.
typedef enum cudaDataType_t : int { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType;
