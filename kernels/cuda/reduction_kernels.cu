// Sums, means and extremes of rows, and sums of columns, in the same order every time.
//
// A row is reduced by one block (CUB's BlockReduce); half and bfloat16 are summed in float. Nothing is added
// atomically.
#include <cub/block/block_reduce.cuh>
#include <type_traits>
#include <utility>

#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/launch.h"

namespace weir::cuda {
namespace {

constexpr int kThreads = kCudaBlockThreads;

// y[r] = scale * the reduction of row r, begun with `first`.
template <typename F, typename T, typename To, typename Number>
__global__ void RowKernel(const T* x, To* y, int64_t rows, int64_t columns, Number first, Number scale) {
  using Reduce = cub::BlockReduce<Number, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Number mine = first;
    for (int64_t i = threadIdx.x; i < columns; i += kThreads) mine = F()(mine, Load(x[row * columns + i]));
    const Number all = Reduce(storage).Reduce(mine, F());
    if (threadIdx.x == 0) Store(y[row], all * scale);
    __syncthreads();
  }
}

// partial[m, p, c] = the sum of column c of matrix m in the p'th of `parts` equal stretches of rows. A thread
// has a column: neighbours read neighbouring elements.
template <typename T, typename Number>
__global__ void ColumnKernel(const T* x, Number* partial, int64_t matrices, int64_t rows, int64_t columns,
                             int64_t parts) {
  const int64_t rows_each = (rows + parts - 1) / parts;
  const int64_t count = matrices * parts * columns;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += gridDim.x * int64_t{blockDim.x}) {
    const int64_t part = i / columns % parts, column = i % columns;
    const T* matrix = x + i / columns / parts * rows * columns;
    const int64_t end = (part + 1) * rows_each < rows ? (part + 1) * rows_each : rows;
    Number sum = 0;
    for (int64_t row = part * rows_each; row < end; ++row) sum += Load(matrix[row * columns + column]);
    partial[i] = sum;
  }
}

// y[m, c] = scale * the sum of the parts of column c of matrix m.
template <typename T, typename Number>
__global__ void ColumnEndKernel(const Number* partial, T* y, int64_t matrices, int64_t columns, int64_t parts,
                                Number scale) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < matrices * columns;
       i += gridDim.x * int64_t{blockDim.x}) {
    const Number* parts_of = partial + i / columns * parts * columns + i % columns;
    Number sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += parts_of[part * columns];
    Store(y[i], sum * scale);
  }
}

}  // namespace

void AddReductionKernels(CudaKernelTable* table) {
  VisitFloats([=]<typename T>() {
    using Number = std::decay_t<decltype(Load(std::declval<const T&>()))>;
    table->Add("RowSum", {DTypeOf<T>}, &RowKernel<elementwise::Add, T, T, Number>);
    table->Add("RowMax", {DTypeOf<T>}, &RowKernel<elementwise::Maximum, T, T, Number>);
    table->Add("RowMin", {DTypeOf<T>}, &RowKernel<elementwise::Minimum, T, T, Number>);
    if constexpr (!std::is_same_v<T, Number>) {
      table->Add("RowSumTo", {DTypeOf<T>, DTypeOf<Number>}, &RowKernel<elementwise::Add, T, Number, Number>);
      table->Add("RowSumTo", {DTypeOf<Number>, DTypeOf<T>}, &RowKernel<elementwise::Add, Number, T, Number>);
    }
    table->Add("ColumnSum", {DTypeOf<T>}, &ColumnKernel<T, Number>);
    table->Add("ColumnSumEnd", {DTypeOf<T>}, &ColumnEndKernel<T, Number>);
  });
}

}  // namespace weir::cuda
