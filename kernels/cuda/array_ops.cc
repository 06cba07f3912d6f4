// BroadcastTo, Fill, Tile, ZerosLike: tensors that repeat what a smaller one has.
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
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

}  // namespace

void RegisterArrayOps(DeviceKernels& kernels) {
  const std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16,
                                     DType::kInt32,   DType::kInt64,   DType::kBool};
  kernels.Add<BroadcastTo>("BroadcastTo", {{"T", dtypes}});
  kernels.Add<Tile>("Tile", {{"T", dtypes}});
  kernels.Add<Fill>("Fill", {{"T", dtypes}});
  kernels.Add<ZerosLike>("ZerosLike", {{"T", dtypes}});
}

}  // namespace weir::cuda
