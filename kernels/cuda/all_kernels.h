// The kernels that this program was built with: all of them, or none in a build without the CUDA toolkit.
#pragma once

#include "kernels/cuda/kernel_table.h"

namespace weir {

CudaKernelTable AllCudaKernels();

namespace cuda {

// One function for each .cu file.
void AddBatchNormKernels(CudaKernelTable* table);
void AddChoiceKernels(CudaKernelTable* table);
void AddDataCheckKernels(CudaKernelTable* table);
void AddElementwiseKernels(CudaKernelTable* table);
void AddIndexedKernels(CudaKernelTable* table);
void AddTrainingKernels(CudaKernelTable* table);
void AddPoolKernels(CudaKernelTable* table);
void AddReductionKernels(CudaKernelTable* table);
void AddSoftmaxKernels(CudaKernelTable* table);

}  // namespace cuda
}  // namespace weir
