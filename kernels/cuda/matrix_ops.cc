// MatMul.
#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cuda/cuda_kernel.h"

namespace weir::cuda {
namespace {

class MatMul final : public CudaKernel {
 public:
  explicit MatMul(const KernelConstruction& construction)
      : CudaKernel(construction),
        transpose_a_(construction.attr<bool>("transpose_a")),
        transpose_b_(construction.attr<bool>("transpose_b")) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const ProductShape sizes,
                          ProductOf(a.shape(), b.shape(), transpose_a_, transpose_b_));
    // Of matrices without elements the product may have more than there can be.
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({sizes.m, sizes.n}));
    WEIR_ASSIGN_OR_RETURN(Tensor * c, context.AllocateOutput(0, shape));
    if (c->num_elements() == 0) return absl::OkStatus();
    if (sizes.k == 0) return stream().Fill(c->data(), 0, c->num_bytes());
    return device().Multiply({.dtype = a.dtype(),
                              .m = sizes.m,
                              .n = sizes.n,
                              .k = sizes.k,
                              .transpose_a = transpose_a_,
                              .transpose_b = transpose_b_,
                              .a = a.data(),
                              .b = b.data(),
                              .c = c->data()});
  }

  const bool transpose_a_, transpose_b_;
};

}  // namespace

void RegisterMatrixOps(DeviceKernels& kernels) {
  kernels.Add<MatMul>("MatMul", {{"T", {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}}});
}

}  // namespace weir::cuda
