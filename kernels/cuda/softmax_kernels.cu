// Softmax cross entropy with its gradient: a block for each row, which reads its logits three times (mostly
// from the cache) and writes loss and gradient. The formulas are those of kernels/cpu/nn/nn_math.h.
#include <cub/block/block_reduce.cuh>
#include <limits>
#include <type_traits>

#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/data_error.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/launch.h"

namespace weir::cuda {
namespace {

constexpr int kThreads = kCudaBlockThreads;

// The sum or maximum over a block, for all its threads.
template <typename F, typename Number>
__device__ Number ReduceForAll(Number mine) {
  using Reduce = cub::BlockReduce<Number, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ Number result;
  const Number all = Reduce(storage).Reduce(mine, F());
  if (threadIdx.x == 0) result = all;
  __syncthreads();
  const Number answer = result;
  __syncthreads();
  return answer;
}

template <typename Number>
struct RowStatistics {
  Number maximum;
  Number sum;  // of exp(logit - maximum)
};

template <typename T>
__device__ auto StatisticsOf(const T* logits, int64_t columns) {
  using Number = std::decay_t<decltype(Load(*logits))>;
  Number maximum = -std::numeric_limits<Number>::infinity();
  for (int64_t i = threadIdx.x; i < columns; i += kThreads) {
    maximum = elementwise::Maximum()(maximum, Load(logits[i]));
  }
  maximum = ReduceForAll<elementwise::Maximum>(maximum);
  Number sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += kThreads) sum += std::exp(Load(logits[i]) - maximum);
  return RowStatistics<Number>{maximum, ReduceForAll<elementwise::Add>(sum)};
}

template <typename T>
__global__ void CrossEntropyKernel(const T* logits, const T* labels, T* losses, T* gradient, int64_t rows,
                                   int64_t columns) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = logits + row * columns;
    const T* y = labels + row * columns;
    const auto statistics = StatisticsOf(x, columns);
    using Number = decltype(statistics.sum);
    const Number log_sum = std::log(statistics.sum);
    std::decay_t<Number> loss = 0;
    for (int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const Number label = Load(y[i]);
      const Number shifted = Load(x[i]) - statistics.maximum;
      // A class that is none of the row's adds nothing, even where its logit is infinite.
      loss += label == 0 ? Number(0) : label * (log_sum - shifted);
      Store(gradient[row * columns + i], std::exp(shifted) * (Number(1) / statistics.sum) - label);
    }
    const Number all = ReduceForAll<elementwise::Add>(loss);
    if (threadIdx.x == 0) Store(losses[row], all + (statistics.sum - statistics.sum));
  }
}

// Of a row whose label is no class, loss and gradient are NaN.
template <typename T, typename Label>
__global__ void SparseCrossEntropyKernel(const T* logits, const Label* labels, T* losses, T* gradient,
                                         int64_t rows, int64_t columns, DataErrorPlace place) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = logits + row * columns;
    const int64_t label = labels[row];
    const bool is_class = label >= 0 && label < columns;
    // The gradient may take the place of the logits.
    const auto of_label = is_class ? Load(x[label]) : Load(x[0]);
    const auto statistics = StatisticsOf(x, columns);
    using Number = std::decay_t<decltype(statistics.sum)>;
    const Number nan = std::numeric_limits<Number>::quiet_NaN();
    for (int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const Number probability = std::exp(Load(x[i]) - statistics.maximum) * (Number(1) / statistics.sum);
      Store(gradient[row * columns + i], is_class ? probability - Number(i == label) : nan);
    }
    if (threadIdx.x != 0) continue;
    if (!is_class) NoteDataError(place, 0);
    Store(losses[row], is_class ? std::log(statistics.sum) - (of_label - statistics.maximum) : nan);
  }
}

}  // namespace

void AddSoftmaxKernels(CudaKernelTable* table) {
  VisitFloats([=]<typename T>() {
    table->Add("CrossEntropy", {DTypeOf<T>}, &CrossEntropyKernel<T>);
    table->Add("SparseCrossEntropy", {DTypeOf<T>, DType::kInt32}, &SparseCrossEntropyKernel<T, int32_t>);
    table->Add("SparseCrossEntropy", {DTypeOf<T>, DType::kInt64}, &SparseCrossEntropyKernel<T, int64_t>);
  });
}

}  // namespace weir::cuda
