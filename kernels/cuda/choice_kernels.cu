// Comparisons, choices, and tensors one behind the other. Their bodies are in choice_bodies.h.
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/choice_bodies.h"
#include "kernels/cuda/device_position.h"

namespace weir::cuda {
namespace {

template <typename F, typename T>
__global__ void CompareKernel(const T* x, int64_t x_step, const T* y, int64_t y_step, bool* z, int64_t n) {
  CompareBody<F>(ThisThread(), x, x_step, y, y_step, z, n);
}

__global__ void LogicalNotKernel(const bool* x, bool* y, int64_t n) { LogicalNotBody(ThisThread(), x, y, n); }

template <typename Word>
__global__ void SelectKernel(const bool* condition, const Word* yes, const Word* no, Word* to, int64_t n,
                             ChoiceSteps steps) {
  SelectBody(ThisThread(), condition, yes, no, to, n, steps);
}

template <typename Word>
__global__ void JoinKernel(const __grid_constant__ JoinedMatrices<Word> joined, Word* to, int64_t n) {
  JoinBody(ThisThread(), joined, to, n);
}

}  // namespace

void AddChoiceKernels(CudaKernelTable* table) {
  VisitComparisons([=]<typename F, typename T>(const char* name) {
    table->Add(name, {DTypeOf<T>}, &CompareKernel<F, T>);
  });
  table->Add("LogicalNot", {DType::kBool}, &LogicalNotKernel);
  VisitSizes([=]<typename Word>() {
    table->Add("Select", {DTypeOf<Word>}, &SelectKernel<Word>);
    table->Add("Join", {DTypeOf<Word>}, &JoinKernel<Word>);
  });
}

}  // namespace weir::cuda
