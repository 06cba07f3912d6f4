// Kernels that indices lead to slices and rows. Their bodies are in indexed_bodies.h.
#include <string>

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

template <typename Index, typename Key>
__global__ void RowKeysKernel(const Index* indices, Key* keys, Key* positions, int64_t n, int64_t limit,
                              bool drops_negative, DataErrorPlace place) {
  RowKeysBody(ThisThread(), indices, keys, positions, n, limit, drops_negative, place);
}

template <typename F, typename T, typename Key>
__global__ void ScatterRowsKernel(SortedRows<Key> sorted, int64_t inner, const T* updates, int64_t step,
                                  T* values, const volatile DataError* errors) {
  ScatterRowsBody<F>(ThisThread(), sorted, inner, updates, step, values, errors);
}

template <typename Rule, typename T, typename Key>
__global__ void UpdateRowsKernel(SortedRows<Key> sorted, const __grid_constant__ UpdatedRows<T> updated,
                                 const __grid_constant__ UpdateScalars<T> scalars, DataErrorPlace place) {
  UpdateRowsBody<Rule>(ThisThread(), sorted, updated, scalars, place);
}

}  // namespace

void AddIndexedKernels(CudaKernelTable* table) {
  VisitIndices([=]<typename Index>() {
    table->Add("CheckIndices", {DTypeOf<Index>}, &CheckIndicesKernel<Index>);
    VisitSizes([=]<typename Word>() {
      table->Add("Gather", {DTypeOf<Word>, DTypeOf<Index>}, &GatherKernel<Word, Index>);
    });
    VisitKeys([=]<typename Key>() {
      table->Add("RowKeys", {DTypeOf<Index>, DTypeOf<Key>}, &RowKeysKernel<Index, Key>);
    });
  });
  VisitKeys([=]<typename Key>() {
    VisitScatters([=]<typename F, typename T>(const char* name) {
      table->Add(name, {DTypeOf<T>, DTypeOf<Key>}, &ScatterRowsKernel<F, T, Key>);
    });
    VisitRowRules([=]<typename Rule, typename T>(const char* name) {
      table->Add(std::string(name) + "Rows", {DTypeOf<T>, DTypeOf<Key>}, &UpdateRowsKernel<Rule, T, Key>);
    });
  });
}

}  // namespace weir::cuda
