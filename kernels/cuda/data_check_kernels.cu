// Kernels that look at data, and that heed what was found. Their bodies are in data_check_bodies.h.
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/data_check_bodies.h"
#include "kernels/cuda/device_position.h"

namespace weir::cuda {
namespace {

template <typename T>
__global__ void CheckNumericsKernel(const T* x, int64_t n, DataErrorPlace place) {
  CheckNumericsBody(ThisThread(), x, n, place);
}

template <typename T>
__global__ void ChooseKernel(const T* value, const T* old, T* to, int64_t n,
                             const volatile DataError* errors) {
  ChooseBody(ThisThread(), value, old, to, n, errors);
}

}  // namespace

void AddDataCheckKernels(CudaKernelTable* table) {
  VisitFloats([=]<typename T>() { table->Add("CheckNumerics", {DTypeOf<T>}, &CheckNumericsKernel<T>); });
  VisitSizes([=]<typename T>() { table->Add("Choose", {DTypeOf<T>}, &ChooseKernel<T>); });
}

}  // namespace weir::cuda
