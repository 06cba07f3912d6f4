// BroadcastTo, Fill, Tile, ZerosLike: tensors that repeat what a smaller one has. Slice, StridedSlice,
// Transpose: tensors that have some elements of another one, or all in another order.
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/array/layout_plans.h"
#include "kernels/cpu/array/slice_view.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/spread.h"

namespace weir::cuda {
namespace {

class BroadcastTo final : public CudaKernel {
 public:
  explicit BroadcastTo(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(1), "shape"));
    const absl::StatusOr<Shape> both = BroadcastShapes({&input.shape(), &shape});
    if (!both.ok() || *both != shape) {
      return absl::InvalidArgumentError(absl::StrCat("Incompatible shapes: ", input.shape().ToString(),
                                                     " does not broadcast to ", shape.ToString()));
    }
    if (shape == input.shape()) {
      context.set_output(0, input);
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    return Broadcast(stream(), kernels(), input, *output);
  }
};

class Fill final : public CudaKernel {
 public:
  explicit Fill(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& value = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(0), "dims"));
    if (value.num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("value must be a scalar, is ", TypeString(value.dtype(), value.shape())));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    return LaunchSpread(stream(), kernels(), value, {output->num_elements()}, {0}, *output);
  }
};

class Tile final : public CudaKernel {
 public:
  explicit Tile(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const int rank = input.shape().rank();
    WEIR_ASSIGN_OR_RETURN(const Dims multiples, ReadIntegers(context.input(1), "multiples"));
    if (static_cast<int>(multiples.size()) != rank) {
      return absl::InvalidArgumentError(absl::StrCat("multiples must have one element per dimension, ", rank,
                                                     ", is ", context.input(1).ToString()));
    }
    // A loop over the repetitions around one over the elements, where there is something to tell apart.
    Dims dims(rank), sizes, strides;
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      const int64_t dim = input.shape().dim(i);
      if (multiples[i] < 0 || __builtin_mul_overflow(dim, multiples[i], &dims[i])) {
        return absl::InvalidArgumentError(
            absl::StrCat("multiples[", i, "] = ", multiples[i], " for a dimension of ", dim));
      }
      if (dim != 1) {
        sizes.insert(sizes.begin(), dim);
        strides.insert(strides.begin(), stride);
      }
      if (multiples[i] != 1) {
        sizes.insert(sizes.begin(), multiples[i]);
        strides.insert(strides.begin(), 0);
      }
      stride *= dim;
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    return LaunchSpread(stream(), kernels(), input, sizes, strides, *output);
  }
};

class ZerosLike final : public CudaKernel {
 public:
  explicit ZerosLike(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, context.input(0).shape()));
    if (output->num_bytes() == 0) return absl::OkStatus();
    return stream().Fill(output->data(), 0, output->num_bytes());
  }
};

// Elements that a plan takes of a tensor.
class View : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

 protected:
  absl::Status Take(KernelContext& context, const ViewPlan& plan) const {
    const Tensor& input = context.input(0);
    if (plan.is_whole) {
      context.set_output(0, input.WithShape(plan.shape));
      return absl::OkStatus();
    }
    return Copy(context, plan.shape, plan.shape.dims(), plan.view);
  }

  // The output, of `shape`, gets what loops over `sizes` come to.
  absl::Status Copy(KernelContext& context, const Shape& shape, absl::Span<const int64_t> sizes,
                    const StridedView& view) const {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    Dims loops, strides;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 1) continue;
      loops.push_back(sizes[i]);
      strides.push_back(view.strides[i]);
    }
    return LaunchSpread(stream(), kernels(), context.input(0), loops, strides, *output, view.offset);
  }
};

class Slice final : public View {
 public:
  explicit Slice(const KernelConstruction& construction) : View(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ViewPlan plan,
                          PlanSlice(context.input(0).shape(), context.input(1), context.input(2)));
    return Take(context, plan);
  }
};

class Transpose final : public View {
 public:
  explicit Transpose(const KernelConstruction& construction) : View(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ViewPlan plan, PlanTranspose(context.input(0).shape(), context.input(1)));
    return Take(context, plan);
  }
};

class StridedSlice final : public View {
 public:
  explicit StridedSlice(const KernelConstruction& construction)
      : View(construction), masks_(ReadMasks(construction)) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Shape& shape = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const StridedSlicePlan plan, ReadPlan(context, shape, 1, masks_));
    return Copy(context, plan.shape, plan.sizes, SlicedView(shape, plan));
  }

  const StridedSliceMasks masks_;
};

}  // namespace

void RegisterArrayOps(DeviceKernels& kernels) {
  const std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16,
                                     DType::kInt32,   DType::kInt64,   DType::kBool};
  kernels.Add<BroadcastTo>("BroadcastTo", {{"T", dtypes}});
  kernels.Add<Tile>("Tile", {{"T", dtypes}});
  kernels.Add<Fill>("Fill", {{"T", dtypes}});
  kernels.Add<ZerosLike>("ZerosLike", {{"T", dtypes}});
  kernels.Add<Transpose>("Transpose", {{"T", dtypes}});
  // Parts of integers are indices and sizes, most often, which the host needs.
  const std::vector<DType> not_integers = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16,
                                           DType::kBool};
  kernels.Add<Slice>("Slice", {{"T", not_integers}});
  kernels.Add<StridedSlice>("StridedSlice", {{"T", not_integers}});
}

}  // namespace weir::cuda
