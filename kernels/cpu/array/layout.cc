// Ops that put elements in another order or other surroundings: each is one or more strided copies.
#include <algorithm>
#include <complex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/array/layout_plans.h"
#include "kernels/cpu/array/slice_view.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

StridedView DenseView(const Shape& shape) { return {0, RowMajorStrides(shape.dims())}; }

Dims DimsOf(const Shape& shape) { return Dims(shape.dims().begin(), shape.dims().end()); }

// The shapes of the first `count` inputs.
std::vector<const Shape*> ShapesOf(const KernelContext& context, int count) {
  std::vector<const Shape*> shapes;
  for (int i = 0; i < count; ++i) shapes.push_back(&context.input(i).shape());
  return shapes;
}

absl::Status ConcatV2(KernelContext& context) {
  const int count = context.num_inputs() - 1;
  WEIR_ASSIGN_OR_RETURN(const JoinPlan plan, PlanConcat(ShapesOf(context, count), context.input(count)));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, plan.shape));
  StridedView target = DenseView(plan.shape);
  for (int i = 0; i < count; ++i) {
    const Tensor& input = context.input(i);
    StridedCopy(input.shape().dims(), input, DenseView(input.shape()), *output, target, context.threads());
    target.offset += input.shape().dim(plan.axis) * target.strides[plan.axis];
  }
  return absl::OkStatus();
}

absl::Status Split(KernelContext& context) {
  const Tensor& value = context.input(1);
  WEIR_ASSIGN_OR_RETURN(const int axis, ReadAxis(context.input(0), value.shape().rank(), "split_dim"));
  const int pieces = context.num_outputs();
  if (value.shape().dim(axis) % pieces != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Number of ways to split should evenly divide the split dimension, ", "but got split_dim ", axis,
        " of ", value.shape().ToString(), " and num_split ", pieces));
  }
  Dims dims = DimsOf(value.shape());
  dims[axis] /= pieces;
  const Shape shape{absl::MakeConstSpan(dims)};
  StridedView source = DenseView(value.shape());
  for (int i = 0; i < pieces; ++i) {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(i, shape));
    StridedCopy(dims, value, source, *output, DenseView(shape), context.threads());
    source.offset += dims[axis] * source.strides[axis];
  }
  return absl::OkStatus();
}

// The sizes of the parts, with what is left of `whole` in place of a -1.
absl::StatusOr<std::vector<int64_t>> PartSizes(const Tensor& size_splits, int64_t whole) {
  const auto refuse = [&] {
    return absl::InvalidArgumentError(absl::StrCat("size_splits is ", size_splits.ToString(),
                                                   ", the dimension to split is ", whole,
                                                   "; one size may be -1 for what is left"));
  };
  std::vector<int64_t> sizes(size_splits.num_elements());
  int64_t left = whole;
  int remainder = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = IntegerAt(size_splits, static_cast<int64_t>(i));
    if (sizes[i] == -1 && remainder < 0) {
      remainder = static_cast<int>(i);
    } else if (sizes[i] < 0 || sizes[i] > left) {
      return refuse();
    } else {
      left -= sizes[i];
    }
  }
  if (remainder >= 0) {
    sizes[remainder] = left;
  } else if (left != 0) {
    return refuse();
  }
  return sizes;
}

absl::Status SplitV(KernelContext& context) {
  const Tensor& value = context.input(0);
  const Tensor& size_splits = context.input(1);
  WEIR_ASSIGN_OR_RETURN(const int axis, ReadAxis(context.input(2), value.shape().rank(), "split_dim"));
  if (size_splits.num_elements() != context.num_outputs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("size_splits must have num_split = ", context.num_outputs(), " elements, is ",
                     size_splits.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, PartSizes(size_splits, value.shape().dim(axis)));
  Dims dims = DimsOf(value.shape());
  StridedView source = DenseView(value.shape());
  for (int i = 0; i < context.num_outputs(); ++i) {
    dims[axis] = sizes[i];
    const Shape shape{absl::MakeConstSpan(dims)};
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(i, shape));
    StridedCopy(dims, value, source, *output, DenseView(shape), context.threads());
    source.offset += sizes[i] * source.strides[axis];
  }
  return absl::OkStatus();
}

class Pack final : public Kernel {
 public:
  explicit Pack(const KernelConstruction& construction) : axis_(construction.attr<int64_t>("axis")) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& element = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const JoinPlan plan, PlanPack(ShapesOf(context, context.num_inputs()), axis_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, plan.shape));
    const Dims strides = RowMajorStrides(plan.shape.dims());
    StridedView target{0, strides};
    target.strides.erase(target.strides.begin() + plan.axis);
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& input = context.input(i);
      if (element.is_scalar()) {
        CopyElements(input, 0, *output, i, 1);
        continue;
      }
      StridedCopy(element.dims(), input, DenseView(element), *output, target, context.threads());
      target.offset += strides[plan.axis];
    }
    return absl::OkStatus();
  }

 private:
  const int64_t axis_;
};

// Rows of one shape below each other, in a tensor whose shape is known before.
class ParallelConcat final : public Kernel {
 public:
  explicit ParallelConcat(const KernelConstruction& construction)
      : shape_(construction.attr<PartialShape>("shape")) {}

  absl::Status Compute(KernelContext& context) override {
    if (!shape_.is_fully_known()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected fully defined output shape, is ", shape_.ToString()));
    }
    const Shape shape = shape_.ToShape();
    const Shape& row = context.input(0).shape();
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Shape& input = context.input(i).shape();
      if (input.rank() == 0 || input.dim(0) != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("Size of first dimension must be 1. values[", i, "] is ", input.ToString()));
      }
      if (input != row) {
        return absl::InvalidArgumentError(
            absl::StrCat("values[0] is ", row.ToString(), ", values[", i, "] is ", input.ToString()));
      }
    }
    Dims dims = DimsOf(row);
    dims[0] = context.num_inputs();
    WEIR_ASSIGN_OR_RETURN(const Shape joined, Shape::FromDims(dims));
    if (shape != joined) {
      return absl::InvalidArgumentError(absl::StrCat("attr shape is ", shape.ToString(), " for ", dims[0],
                                                     " values that are each ", row.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    for (int i = 0; i < context.num_inputs(); ++i)
      CopyElements(context.input(i), 0, *output, i * row.num_elements(), row.num_elements());
    return absl::OkStatus();
  }

 private:
  const PartialShape shape_;
};

class Unpack final : public Kernel {
 public:
  explicit Unpack(const KernelConstruction& construction) : axis_(construction.attr<int64_t>("axis")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, value.shape().rank(), "axis"));
    if (value.shape().dim(axis) != context.num_outputs()) {
      return absl::InvalidArgumentError(absl::StrCat("value is ", value.shape().ToString(), ", dimension ",
                                                     axis, " must be num = ", context.num_outputs()));
    }
    Dims dims = DimsOf(value.shape());
    dims.erase(dims.begin() + axis);
    const Shape shape{absl::MakeConstSpan(dims)};
    StridedView source = DenseView(value.shape());
    const int64_t step = source.strides[axis];
    source.strides.erase(source.strides.begin() + axis);
    for (int i = 0; i < context.num_outputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(i, shape));
      StridedCopy(dims, value, source, *output, DenseView(shape), context.threads());
      source.offset += step;
    }
    return absl::OkStatus();
  }

 private:
  const int64_t axis_;
};

// The elements that the plan takes.
absl::Status Take(KernelContext& context, const Tensor& x, const ViewPlan& plan) {
  if (plan.is_whole) {
    context.set_output(0, x);
    return absl::OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, plan.shape));
  StridedCopy(plan.shape.dims(), x, plan.view, *output, DenseView(plan.shape), context.threads());
  return absl::OkStatus();
}

absl::Status Slice(KernelContext& context) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(const ViewPlan plan, PlanSlice(input.shape(), context.input(1), context.input(2)));
  return Take(context, input, plan);
}

class StridedSlice final : public Kernel {
 public:
  explicit StridedSlice(const KernelConstruction& construction) : masks_(ReadMasks(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const StridedSlicePlan plan, ReadPlan(context, input.shape(), 1, masks_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, plan.shape));
    StridedCopy(plan.sizes, input, SlicedView(input.shape(), plan), *output, {0, RowMajorStrides(plan.sizes)},
                context.threads());
    return absl::OkStatus();
  }

 private:
  const StridedSliceMasks masks_;
};

class StridedSliceGrad final : public Kernel {
 public:
  explicit StridedSliceGrad(const KernelConstruction& construction) : masks_(ReadMasks(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(0), "shape"));
    const Tensor& dy = context.input(4);
    WEIR_ASSIGN_OR_RETURN(const StridedSlicePlan plan, ReadPlan(context, shape, 1, masks_));
    if (dy.shape() != plan.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape of dy was ", dy.shape().ToString(), " instead of ", plan.shape.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    ClearElements(*output, 0, output->num_elements());
    StridedCopy(plan.sizes, dy, {0, RowMajorStrides(plan.sizes)}, *output, SlicedView(shape, plan),
                context.threads());
    return absl::OkStatus();
  }

 private:
  const StridedSliceMasks masks_;
};

class TensorStridedSliceUpdate final : public Kernel {
 public:
  explicit TensorStridedSliceUpdate(const KernelConstruction& construction)
      : masks_(ReadMasks(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const StridedSlicePlan plan, ReadPlan(context, input.shape(), 1, masks_));
    WEIR_RETURN_IF_ERROR(CheckUpdatesSlice(context, plan, context.input(4)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, input.shape()));
    if (!output->SharesBufferWith(input)) CopyElements(input, 0, *output, 0, input.num_elements());
    UpdateSlice(plan, context.input(4), *output, context.threads());
    return absl::OkStatus();
  }

 private:
  const StridedSliceMasks masks_;
};

// Of `x`, by the permutation in input 1.
absl::Status TransposeInto(KernelContext& context, const Tensor& x) {
  WEIR_ASSIGN_OR_RETURN(const ViewPlan plan, PlanTranspose(x.shape(), context.input(1)));
  return Take(context, x, plan);
}

absl::Status Transpose(KernelContext& context) { return TransposeInto(context, context.input(0)); }

template <typename T>
absl::StatusOr<Tensor> Conjugated(KernelContext& context, const Tensor& x) {
  WEIR_ASSIGN_OR_RETURN(Tensor conjugates, context.AllocateTemporary(x.dtype(), x.shape()));
  std::transform(x.flat<T>().begin(), x.flat<T>().end(), conjugates.flat<T>().begin(),
                 [](T z) { return std::conj(z); });
  return conjugates;
}

absl::Status ConjugateTranspose(KernelContext& context) {
  Tensor x = context.input(0);
  if (x.dtype() == DType::kComplex64) {
    WEIR_ASSIGN_OR_RETURN(x, Conjugated<std::complex<float>>(context, x));
  } else if (x.dtype() == DType::kComplex128) {
    WEIR_ASSIGN_OR_RETURN(x, Conjugated<std::complex<double>>(context, x));
  }
  return TransposeInto(context, x);
}

absl::Status Tile(KernelContext& context) {
  const Tensor& input = context.input(0);
  const int rank = input.shape().rank();
  WEIR_ASSIGN_OR_RETURN(const Dims multiples, ReadIntegers(context.input(1), "multiples"));
  if (static_cast<int>(multiples.size()) != rank) return WrongLength("multiples", context.input(1), rank);
  Dims dims(rank), loops(2 * rank);
  StridedView source{0, Dims(2 * rank)};
  const Dims strides = RowMajorStrides(input.shape().dims());
  for (int i = 0; i < rank; ++i) {
    const int64_t dim = input.shape().dim(i);
    if (multiples[i] < 0 || !MultiplyWithoutOverflow(dim, multiples[i], &dims[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("multiples[", i, "] = ", multiples[i], " for a dimension of ", dim));
    }
    loops[2 * i] = multiples[i];  // a loop over the repetitions around one over the elements
    loops[2 * i + 1] = dim;
    source.strides[2 * i] = 0;
    source.strides[2 * i + 1] = strides[i];
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, input, shape.num_elements()));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  StridedCopy(loops, input, source, *output, {0, RowMajorStrides(loops)}, context.threads());
  return absl::OkStatus();
}

absl::Status BroadcastTo(KernelContext& context) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(1), "shape"));
  const int extra = shape.rank() - input.shape().rank();
  const auto bad = [&] {
    return absl::InvalidArgumentError(absl::StrCat("Incompatible shapes: ", input.shape().ToString(),
                                                   " does not broadcast to ", shape.ToString()));
  };
  if (extra < 0) return bad();
  const Dims strides = RowMajorStrides(input.shape().dims());
  StridedView source{0, Dims(shape.rank(), 0)};
  for (int i = extra; i < shape.rank(); ++i) {
    const int64_t dim = input.shape().dim(i - extra);
    if (dim != 1 && dim != shape.dim(i)) return bad();
    source.strides[i] = dim == 1 ? 0 : strides[i - extra];
  }
  if (shape == input.shape()) {
    context.set_output(0, input);
    return absl::OkStatus();
  }
  WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, input, shape.num_elements()));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  StridedCopy(shape.dims(), input, source, *output, DenseView(shape), context.threads());
  return absl::OkStatus();
}

}  // namespace

void RegisterLayoutKernels(DeviceKernels& kernels) {
  std::vector<DType> dtypes = AllDTypes();
  dtypes.push_back(DType::kVariant);
  const DeviceKernels::TypeAttrs any = {{"T", dtypes}};
  kernels.Add<&ConcatV2>("ConcatV2", any);
  kernels.Add<&Split>("Split", any);
  kernels.Add<&SplitV>("SplitV", any);
  kernels.Add<Pack>("Pack", any);
  kernels.Add<ParallelConcat>("ParallelConcat", any);
  kernels.Add<Unpack>("Unpack", any);
  kernels.Add<&Slice>("Slice", any);
  kernels.Add<StridedSlice>("StridedSlice", any);
  kernels.Add<StridedSliceGrad>("StridedSliceGrad", any);
  kernels.Add<TensorStridedSliceUpdate>("TensorStridedSliceUpdate", any);
  kernels.Add<&Transpose>("Transpose", any);
  kernels.Add<&ConjugateTranspose>("ConjugateTranspose", any);
  kernels.Add<&Tile>("Tile", any);
  kernels.Add<&BroadcastTo>("BroadcastTo", any);
}

}  // namespace weir
