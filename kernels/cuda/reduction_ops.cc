// Sum and Mean. Any set of axes becomes reductions of the rows or of the columns of matrices.
#include <algorithm>
#include <string>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/row_launches.h"

namespace weir::cuda {
namespace {

int64_t Product(const Dims& sizes, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= sizes[i];
  return product;
}

class Reduction final : public CudaKernel {
 public:
  explicit Reduction(const KernelConstruction& construction)
      : CudaKernel(construction),
        is_mean_(construction.node().op_name() == "Mean"),
        keep_dims_(construction.attr<bool>("keep_dims")) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                          ReadReducedAxes(context.input(1), input.shape().rank()));
    const auto [dims, count] = ReducedDims(input.shape(), reduced, keep_dims_);
    if (count == 1) {  // nothing to combine: the same elements in another shape
      context.set_output(0, input.WithShape(Shape(dims)));
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape(dims)));
    return ReduceAll(context, input, MergeDims(input.shape(), reduced), *output);
  }

  // The innermost reduced dimension first, until one is left. Means of equal numbers of means are the mean.
  absl::Status ReduceAll(KernelContext& context, const Tensor& input, MergedDims dims, Tensor& output) const {
    Tensor current = input;
    while (true) {
      size_t at = dims.sizes.size();
      while (!dims.reduced[at - 1]) --at;
      const int64_t before = Product(dims.sizes, 0, at - 1), n = dims.sizes[at - 1];
      const int64_t after = Product(dims.sizes, at, dims.sizes.size());
      if (std::count(dims.reduced.begin(), dims.reduced.end(), true) == 1) {
        return ReduceMiddle(context, current, before, n, after, output);
      }
      WEIR_ASSIGN_OR_RETURN(Tensor partial,
                            context.AllocateTemporary(SumDType(input.dtype()), Shape({before, after})));
      WEIR_RETURN_IF_ERROR(ReduceMiddle(context, current, before, n, after, partial));
      current = std::move(partial);
      dims.sizes.erase(dims.sizes.begin() + static_cast<int64_t>(at) - 1);
      dims.reduced.erase(dims.reduced.begin() + static_cast<int64_t>(at) - 1);
    }
  }

  // to[before, after] = the reduction of from[before, n, after] over n.
  absl::Status ReduceMiddle(KernelContext& context, const Tensor& from, int64_t before, int64_t n,
                            int64_t after, Tensor& to) const {
    if (after == 1) {
      return LaunchRowReduction(stream(), kernels(), is_mean_ ? RowReduction::kMean : RowReduction::kSum,
                                from, before, n, to);
    }
    return LaunchColumnSum(stream(), kernels(), from, n, after, context.allocator(), to, is_mean_, before);
  }

  const bool is_mean_;
  const bool keep_dims_;
};

}  // namespace

void RegisterReductionOps(DeviceKernels& kernels) {
  const std::vector<DType> floats = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};
  kernels.Add<Reduction>("Sum", {{"T", floats}});
  kernels.Add<Reduction>("Mean", {{"T", floats}});
}

}  // namespace weir::cuda
