// Reading slices of variables, and their shapes.
//
// A gather copies under the variable's lock and keeps no reference to its buffer, so that updates of other
// slices still run in place.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/state/slices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kAhead = 12;  // slices on their way from memory while one is copied

absl::Status CopySlices(KernelContext& context, const Tensor& tensor, const Slices& slices) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(slices.dims));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int64_t inner = slices.inner;
  // A slice begins where no cache has it, most often.
  const double cost = 15 + 0.1 * static_cast<double>(inner) * static_cast<double>(DTypeSize(tensor.dtype()));
  WithElementType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const from = static_cast<const T*>(tensor.data());
    T* const to = static_cast<T*>(output->data());
    context.threads().ParallelFor(slices.offsets.num_elements(), cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        __builtin_prefetch(from + slices.offset(std::min(i + kAhead, end - 1)));
        if constexpr (std::is_trivially_copyable_v<T>) {
          if (inner == 1) {
            to[i] = from[slices.offset(i)];
          } else {
            std::memcpy(to + i * inner, from + slices.offset(i), inner * sizeof(T));
          }
        } else {
          std::copy_n(from + slices.offset(i), inner, to + i * inner);
        }
      }
    });
  });
  return absl::OkStatus();
}

class Gather final : public Kernel {
 public:
  explicit Gather(const KernelConstruction& construction)
      : batch_dims_(construction.attr<int64_t>("batch_dims")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
    const Variable& variable = *source.variable;
    absl::ReaderMutexLock lock(&variable.mutex);
    WEIR_RETURN_IF_ERROR(CheckRead(variable, source.name, context.output_type(0)));
    WEIR_ASSIGN_OR_RETURN(const Slices slices,
                          SlicesOfRows(context, variable.tensor.shape(), context.input(1), batch_dims_));
    return CopySlices(context, variable.tensor, slices);
  }

 private:
  const int64_t batch_dims_;
};

absl::Status GatherNd(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
  const Variable& variable = *source.variable;
  absl::ReaderMutexLock lock(&variable.mutex);
  WEIR_RETURN_IF_ERROR(CheckRead(variable, source.name, context.output_type(0)));
  WEIR_ASSIGN_OR_RETURN(const Slices slices, SlicesAtCoordinates(context, variable.tensor.shape(),
                                                                 context.input(1), BadIndices::kError));
  return CopySlices(context, variable.tensor, slices);
}

absl::Status ShapeOfVariable(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
  const Variable& variable = *source.variable;
  absl::ReaderMutexLock lock(&variable.mutex);
  if (!variable.tensor.is_valid()) return UninitializedVariable(source.name);
  const Shape& shape = variable.tensor.shape();
  for (const int64_t dim : shape.dims()) {
    if (context.output_type(0) == DType::kInt64 || dim <= std::numeric_limits<int32_t>::max()) continue;
    return absl::InvalidArgumentError(absl::StrCat("the shape of variable '", source.name, "' is ",
                                                   shape.ToString(), ", which does not fit into int32"));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({shape.rank()})));
  WriteIntegers(shape.dims(), *output);
  return absl::OkStatus();
}

}  // namespace

void RegisterGathersKernels(DeviceKernels& kernels) {
  kernels.Add<Gather>("ResourceGather", {{"dtype", AllDTypes()}});
  kernels.Add<&GatherNd>("ResourceGatherNd", {{"dtype", AllDTypes()}});
  kernels.Add<&ShapeOfVariable>("VariableShape");
}

}  // namespace weir
