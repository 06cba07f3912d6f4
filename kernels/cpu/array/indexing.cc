// Ops whose elements are chosen by the values of others: gathering, one-hot codes, coordinates.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/index_checks.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

int64_t Product(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

class GatherV2 final : public Kernel {
 public:
  explicit GatherV2(const KernelConstruction& construction)
      : batch_dims_(construction.attr<int64_t>("batch_dims")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& params = context.input(0);
    const Tensor& indices = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const GatheredSlices slices,
                          PlanGather(params.shape(), indices.shape(), context.input(2), batch_dims_));
    WEIR_RETURN_IF_ERROR(CheckIndices("indices", indices, slices.limit));
    WEIR_RETURN_IF_ERROR(CheckRoomForSlices(context, params, indices, slices));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, slices.shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    const double cost = 3 + 0.1 * slices.inner * DTypeSize(params.dtype());
    const int64_t num_slices = slices.batches * slices.outer * slices.count;
    context.threads().ParallelFor(num_slices, cost, [&](int64_t begin, int64_t end) {
      WithElementType(params.dtype(), [&](auto tag) {
        Copy<typename decltype(tag)::Type>(params, indices, *output, slices, begin, end);
      });
    });
    return absl::OkStatus();
  }

 private:
  // Each slice is at most as large as all of the params.
  static absl::Status CheckRoomForSlices(KernelContext& context, const Tensor& params, const Tensor& indices,
                                         const GatheredSlices& slices) {
    if (params.dtype() != DType::kString || params.num_elements() == 0) return absl::OkStatus();
    if (slices.axis > 0 || slices.batch_rank > 0) {
      return CheckRoom(context, BytesOutside(params, 0, params.num_elements()), indices.num_elements());
    }
    const int64_t inner = params.num_elements() / params.shape().dim(0);
    int64_t num_bytes = 0;
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const int64_t begin = IntegerAt(indices, i) * inner;
      if (__builtin_add_overflow(num_bytes, BytesOutside(params, begin, begin + inner), &num_bytes)) break;
    }
    return CheckRoom(context, num_bytes, 1);
  }

  // Slices [begin, end) of `inner` elements of the output.
  template <typename T>
  static void Copy(const Tensor& params, const Tensor& indices, Tensor& output, const GatheredSlices& sizes,
                   int64_t begin, int64_t end) {
    const T* from = static_cast<const T*>(params.data());
    T* to = static_cast<T*>(output.data());
    for (int64_t slice = begin; slice < end; ++slice) {
      const int64_t plane = slice / sizes.count;  // of [batches, outer]
      const int64_t position = plane / sizes.outer * sizes.count + slice % sizes.count;
      const T* source = from + (plane * sizes.limit + IntegerAt(indices, position)) * sizes.inner;
      if (sizes.inner == 1) {
        to[slice] = *source;
      } else if constexpr (std::is_trivially_copyable_v<T>) {
        std::memcpy(to + slice * sizes.inner, source, sizes.inner * sizeof(T));
      } else {
        std::copy_n(source, sizes.inner, to + slice * sizes.inner);
      }
    }
  }

  const int64_t batch_dims_;
};

class OneHot final : public Kernel {
 public:
  explicit OneHot(const KernelConstruction& construction) : axis_(construction.attr<int64_t>("axis")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& on = context.input(2);
    const Tensor& off = context.input(3);
    WEIR_ASSIGN_OR_RETURN(const int64_t depth, ReadInteger(context.input(1), "depth"));
    WEIR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, indices.shape().rank() + 1, "axis"));
    if (depth < 0) return absl::InvalidArgumentError(absl::StrCat("depth must be non-negative, is ", depth));
    if (on.num_elements() != 1 || off.num_elements() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("on_value and off_value must be scalars, are ",
                                                     on.ToString(), " and ", off.ToString()));
    }
    Dims dims(indices.shape().dims().begin(), indices.shape().dims().end());
    const int64_t inner = Product(indices.shape().dims().subspan(axis));
    dims.insert(dims.begin() + axis, depth);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, off, shape.num_elements()));
    WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, on, indices.num_elements()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    FillElements(off, *output, 0, output->num_elements());
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const int64_t index = IntegerAt(indices, i);
      if (index < 0 || index >= depth) continue;  // a row without a one
      CopyElements(on, 0, *output, (i / inner * depth + index) * inner + i % inner, 1);
    }
    return absl::OkStatus();
  }

 private:
  const int64_t axis_;
};

// The coordinates of the elements that are not zero, in row-major order.
template <typename T>
absl::Status WhereOf(KernelContext& context) {
  const Tensor& input = context.input(0);
  const int rank = input.shape().rank();
  const auto values = input.flat<T>();
  const int64_t count =
      std::count_if(values.begin(), values.end(), [](const T& value) { return value != T(0); });
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({count, rank})));
  int64_t* to = output->flat<int64_t>().data();
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    if (values[i] == T(0)) continue;
    int64_t rest = i;
    for (int d = rank - 1; d >= 0; --d) {
      to[d] = rest % input.shape().dim(d);
      rest /= input.shape().dim(d);
    }
    to += rank;
  }
  return absl::OkStatus();
}

absl::Status Where(KernelContext& context) {
  if (context.input(0).dtype() == DType::kBool) return WhereOf<bool>(context);
  absl::Status status;
  WithNumericType(context.input(0).dtype(),
                  [&](auto tag) { status = WhereOf<typename decltype(tag)::Type>(context); });
  return status;
}

}  // namespace

void RegisterIndexingKernels(DeviceKernels& kernels) {
  kernels.Add<GatherV2>("GatherV2", {{"Tparams", AllDTypes()}});
  kernels.Add<OneHot>("OneHot", {{"T", AllDTypes()}});
  kernels.Add<&Where>("Where", {{"T", CountableDTypes()}});
}

}  // namespace weir
