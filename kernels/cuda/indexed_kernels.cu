// Kernels that indices lead to slices and rows. Their bodies are in indexed_bodies.h.
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/device_position.h"
#include "kernels/cuda/indexed_bodies.h"

namespace weir::cuda {
namespace {

template <typename Word, typename Index>
__global__ void GatherKernel(const Word* params, const Index* indices, Word* output, int64_t n,
                             GatherDims dims, DataErrorPlace place) {
  GatherBody(ThisThread(), params, indices, output, n, dims, place);
}

template <typename Index>
__global__ void CheckIndicesKernel(const Index* indices, int64_t n, int64_t limit, DataErrorPlace place) {
  CheckIndicesBody(ThisThread(), indices, n, limit, place);
}

}  // namespace

void AddIndexedKernels(CudaKernelTable* table) {
  VisitIndices([=]<typename Index>() {
    table->Add("CheckIndices", {DTypeOf<Index>}, &CheckIndicesKernel<Index>);
    VisitSizes([=]<typename Word>() {
      table->Add("Gather", {DTypeOf<Word>, DTypeOf<Index>}, &GatherKernel<Word, Index>);
    });
  });
}

}  // namespace weir::cuda
