// LowerBound, UpperBound: where values belong in sorted rows.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::Status CheckSearch(const Tensor& sorted, const Tensor& values, DType positions) {
  for (const Tensor* tensor : {&sorted, &values}) {
    if (tensor->shape().rank() == 2) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Shape must be rank 2 but is rank ", tensor->shape().rank(), " for `",
                     tensor == &sorted ? "sorted_inputs" : "values", "` argument"));
  }
  if (sorted.shape().dim(0) != values.shape().dim(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Leading dim_size of both tensors must match. sorted_inputs is ",
                     sorted.shape().ToString(), ", values is ", values.shape().ToString()));
  }
  if (positions == DType::kInt32 && sorted.shape().dim(1) > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("positions in sorted_inputs ", sorted.shape().ToString(),
                                                   " do not fit in int32: ask for out_type int64"));
  }
  return absl::OkStatus();
}

// How many elements of the row come before the value: those below it or, for the upper bound, not above it.
template <bool is_upper, typename T>
int64_t PositionOf(T value, const T* begin, const T* end) {
  return (is_upper ? std::upper_bound(begin, end, value) : std::lower_bound(begin, end, value)) - begin;
}

template <bool is_upper, typename T, typename I>
void SearchRows(const Tensor& sorted, const Tensor& values, Tensor& output, ThreadPool& threads) {
  const int64_t length = sorted.shape().dim(1), per_row = values.shape().dim(1);
  const T* rows = sorted.flat<T>().data();
  const T* value = values.flat<T>().data();
  I* position = output.flat<I>().data();
  constexpr double kNanoseconds = 20;
  threads.ParallelFor(values.num_elements(), kNanoseconds, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = rows + i / per_row * length;
      position[i] = static_cast<I>(PositionOf<is_upper>(value[i], row, row + length));
    }
  });
}

template <bool is_upper>
absl::Status Search(KernelContext& context) {
  const Tensor &sorted = context.input(0), &values = context.input(1);
  const DType positions = context.output_type(0);
  WEIR_RETURN_IF_ERROR(CheckSearch(sorted, values, positions));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, values.shape()));
  WithNumericType(sorted.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (requires(T x) { x < x; }) {
      if (positions == DType::kInt32) {
        SearchRows<is_upper, T, int32_t>(sorted, values, *output, context.threads());
      } else {
        SearchRows<is_upper, T, int64_t>(sorted, values, *output, context.threads());
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterSortedSearchKernels(DeviceKernels& kernels) {
  kernels.Add<&Search<false>>("LowerBound", {{"T", RealDTypes()}});
  kernels.Add<&Search<true>>("UpperBound", {{"T", RealDTypes()}});
}

}  // namespace weir
