#include "kernels/cuda/all_kernels.h"

namespace weir {

CudaKernelTable AllCudaKernels() {
  CudaKernelTable table;
  cuda::AddBatchNormKernels(&table);
  cuda::AddChoiceKernels(&table);
  cuda::AddDataCheckKernels(&table);
  cuda::AddElementwiseKernels(&table);
  cuda::AddIndexedKernels(&table);
  cuda::AddPoolKernels(&table);
  cuda::AddTrainingKernels(&table);
  cuda::AddReductionKernels(&table);
  cuda::AddSoftmaxKernels(&table);
  return table;
}

}  // namespace weir
