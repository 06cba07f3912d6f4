// One launch updates many variables. The body is in training_bodies.h.
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/training_bodies.h"

namespace weir::cuda {
namespace {

template <typename Rule, typename T>
__global__ void UpdateKernel(const __grid_constant__ UpdatedArrays<T> updated,
                             const __grid_constant__ UpdateScalars<T> scalars, DataErrorPlace place) {
  UpdateBody<Rule>(updated, scalars, place, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}

}  // namespace

void AddTrainingKernels(CudaKernelTable* table) {
  VisitRules([=]<typename Rule, typename T>(const char* name) {
    static_assert(sizeof(UpdatedArrays<T>) + sizeof(UpdateScalars<T>) + sizeof(DataErrorPlace) <= 4096);
    table->Add(name, {DTypeOf<T>}, &UpdateKernel<Rule, T>);
  });
}

}  // namespace weir::cuda
