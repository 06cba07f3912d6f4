// MatMul and SparseMatMul.
#include <complex>
#include <vector>

#include "graph/types/status_macros.h"
#include "kernels/cpu/math/batch_product.h"
#include "kernels/cpu/math/bfloat16_product.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/math/transposition.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel_registry.h"

namespace weir {
namespace {

template <typename T>
class MatMul final : public Kernel {
 public:
  explicit MatMul(const KernelConstruction& construction) : transposition_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const ProductShape shape, transposition_.ShapeOfProduct(a.shape(), b.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * c, AllocateProduct(context, shape));
    return MultiplyMatrices<T>(context, shape, a.flat<T>().data(), b.flat<T>().data(), c->flat<T>().data());
  }

 private:
  const Transposition transposition_;
};

absl::Status MultiplyWidened(KernelContext& context, const ProductShape& shape, Tensor* c) {
  WEIR_ASSIGN_OR_RETURN(const Tensor a, Widen(context, context.input(0)));
  WEIR_ASSIGN_OR_RETURN(const Tensor b, Widen(context, context.input(1)));
  WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput(context, *c));
  WEIR_RETURN_IF_ERROR(MultiplyFloat(context, shape, a.flat<float>().data(), b.flat<float>().data(),
                                     wide.flat<float>().data()));
  Narrow(context, wide, c);
  return absl::OkStatus();
}

// Of Half, and of sparse matrices, as a dense product: what zeros save is less than what the order of memory
// gains.
class WidenedMatMul final : public Kernel {
 public:
  explicit WidenedMatMul(const KernelConstruction& construction) : transposition_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ProductShape shape,
                          transposition_.ShapeOfProduct(context.input(0).shape(), context.input(1).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * c, AllocateProduct(context, shape));
    return MultiplyWidened(context, shape, c);
  }

 private:
  const Transposition transposition_;
};

// oneDNN's primitive where the processor has one (AVX-512), single precision elsewhere.
class Bfloat16MatMul final : public Kernel {
 public:
  explicit Bfloat16MatMul(const KernelConstruction& construction) : transposition_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ProductShape shape,
                          transposition_.ShapeOfProduct(context.input(0).shape(), context.input(1).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * c, AllocateProduct(context, shape));
    const absl::Status status = products_.Run(context, shape, context.input(0), context.input(1), c);
    return absl::IsUnimplemented(status) ? MultiplyWidened(context, shape, c) : status;
  }

 private:
  const Transposition transposition_;
  Bfloat16Products products_;
};

}  // namespace

void RegisterMatmulKernels(DeviceKernels& kernels) {
  kernels.Add<MatMul>("MatMul", Types<float, double, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                                      std::complex<float>, std::complex<double>>("T"));
  kernels.Add<WidenedMatMul>("MatMul", {{"T", {DType::kHalf}}});
  kernels.Add<Bfloat16MatMul>("MatMul", {{"T", {DType::kBfloat16}}});
  const std::vector<DType> dtypes = {DType::kFloat32, DType::kBfloat16};
  kernels.Add<WidenedMatMul>("SparseMatMul", {{"Ta", dtypes}, {"Tb", dtypes}});
}

}  // namespace weir
