// Choosing between two tensors, element by element.
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/array/layout_plans.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

double CostOf(DType dtype) { return IsPlainBytes(dtype) ? 0.2 * DTypeSize(dtype) : 30; }

// output[i] = condition[i] ? t[i] : e[i]; the output may be t or e.
void SelectFlat(KernelContext& context, const Tensor& condition, const Tensor& t, const Tensor& e,
                Tensor& output) {
  WithElementType(output.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool* choose = condition.flat<bool>().data();
    const T* yes = static_cast<const T*>(t.data());
    const T* no = static_cast<const T*>(e.data());
    T* to = static_cast<T*>(output.data());
    context.threads().ParallelFor(output.num_elements(), CostOf(output.dtype()),
                                  [&](int64_t begin, int64_t end) {
                                    for (int64_t i = begin; i < end; ++i) to[i] = choose[i] ? yes[i] : no[i];
                                  });
  });
}

void SelectBroadcast(KernelContext& context, const Tensor& condition, const Tensor& t, const Tensor& e,
                     Tensor& output) {
  const BroadcastLoops loops =
      MakeBroadcastLoops(output.shape(), {&condition.shape(), &t.shape(), &e.shape()});
  const int64_t n = loops.inner_size();
  const int64_t c_step = loops.strides[0].back(), t_step = loops.strides[1].back(),
                e_step = loops.strides[2].back();
  WithElementType(output.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool* choose = condition.flat<bool>().data();
    const T* yes = static_cast<const T*>(t.data());
    const T* no = static_cast<const T*>(e.data());
    T* to = static_cast<T*>(output.data());
    context.threads().ParallelFor(
        loops.num_rows(), n * CostOf(output.dtype()) + 5, [&](int64_t begin, int64_t end) {
          ForEachRow(loops, 3, begin, end, [&](int64_t row, const int64_t* at) {
            for (int64_t i = 0; i < n; ++i) {
              to[row * n + i] = choose[at[0] + i * c_step] ? yes[at[1] + i * t_step] : no[at[2] + i * e_step];
            }
          });
        });
  });
}

// The condition has the shape of t and e, is a scalar, or chooses rows of dimension 0.
absl::Status Select(KernelContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& t = context.input(1);
  const Tensor& e = context.input(2);
  WEIR_RETURN_IF_ERROR(CheckSelect(condition.shape(), t.shape(), e.shape()));
  if (condition.shape().is_scalar()) {
    context.set_output(0, condition.scalar<bool>() ? t : e);
    return absl::OkStatus();
  }
  if (condition.shape() == t.shape()) {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({1, 2}, 0, t.shape()));
    SelectFlat(context, condition, t, e, *output);
    return absl::OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, t.shape()));
  const int64_t row = condition.num_elements() == 0 ? 0 : t.num_elements() / condition.num_elements();
  for (int64_t i = 0; i < condition.num_elements(); ++i) {
    CopyElements(condition.flat<bool>()[i] ? t : e, i * row, *output, i * row, row);
  }
  return absl::OkStatus();
}

absl::Status SelectV2(KernelContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& t = context.input(1);
  const Tensor& e = context.input(2);
  if (condition.shape() == t.shape() && t.shape() == e.shape()) {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({1, 2}, 0, t.shape()));
    SelectFlat(context, condition, t, e, *output);
    return absl::OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes({&condition.shape(), &t.shape(), &e.shape()}));
  for (const Tensor* chosen : {&t, &e}) {
    WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, *chosen, shape.num_elements()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() > 0) SelectBroadcast(context, condition, t, e, *output);
  return absl::OkStatus();
}

}  // namespace

void RegisterSelectKernels(DeviceKernels& kernels) {
  kernels.Add<&Select>("Select", {{"T", AllDTypes()}});
  kernels.Add<&SelectV2>("SelectV2", {{"T", AllDTypes()}});
}

}  // namespace weir
