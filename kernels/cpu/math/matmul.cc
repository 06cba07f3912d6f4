// MatMul.
#include <complex>

#include "graph/types/status_macros.h"
#include "kernels/cpu/math/math_kernels.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/math/transposition.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/widened.h"
#include "kernels/kernel_registry.h"

namespace weir {
namespace {

template <typename T>
absl::Status Multiply(KernelContext& context, const ProductShape& shape, const T* a, const T* b, T* c) {
  if constexpr (std::is_same_v<T, float>) {
    return MultiplyFloat(context.threads(), shape, a, b, c);
  } else if constexpr (std::is_same_v<T, double>) {
    MultiplyDouble(context.threads(), shape, a, b, c);
    return absl::OkStatus();
  } else {
    MultiplyPlain(context.threads(), shape, a, b, c);
    return absl::OkStatus();
  }
}

template <typename T>
class MatMul final : public Kernel {
 public:
  explicit MatMul(const KernelConstruction& construction) : transposition_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const ProductShape shape, transposition_.ShapeOfProduct(a.shape(), b.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * c, AllocateProduct(context, shape));
    return Multiply(context, shape, a.flat<T>().data(), b.flat<T>().data(), c->flat<T>().data());
  }

 private:
  const Transposition transposition_;
};

template <typename T>
absl::Status MultiplyWidened(KernelContext& context, const ProductShape& shape, Tensor* c) {
  WEIR_ASSIGN_OR_RETURN(const Tensor a, Widen<T>(context, context.input(0)));
  WEIR_ASSIGN_OR_RETURN(const Tensor b, Widen<T>(context, context.input(1)));
  WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput<T>(context, *c));
  WEIR_RETURN_IF_ERROR(MultiplyFloat(context.threads(), shape, a.flat<float>().data(), b.flat<float>().data(),
                                     wide.flat<float>().data()));
  Narrow<T>(context, wide, c);
  return absl::OkStatus();
}

class HalfMatMul final : public Kernel {
 public:
  explicit HalfMatMul(const KernelConstruction& construction) : transposition_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ProductShape shape,
                          transposition_.ShapeOfProduct(context.input(0).shape(), context.input(1).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * c, AllocateProduct(context, shape));
    return MultiplyWidened<Half>(context, shape, c);
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
    if (shape.m == 0 || shape.n == 0 || shape.k == 0) return MultiplyWidened<Bfloat16>(context, shape, c);
    WEIR_ASSIGN_OR_RETURN(const auto prepared, prepared_.FindOrCreate(shape, [&] { return Prepare(shape); }));
    if (!prepared->is_supported) return MultiplyWidened<Bfloat16>(context, shape, c);
    return Run(context, *prepared, c);
  }

 private:
  struct Prepared {
    bool is_supported = false;
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
  };

  static dnnl::memory::desc Describe(int64_t rows, int64_t columns, bool transposed) {
    return {{rows, columns},
            dnnl::memory::data_type::bf16,
            transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1}};
  }

  static absl::StatusOr<std::shared_ptr<const Prepared>> Prepare(const ProductShape& shape) {
    auto prepared = std::make_shared<Prepared>();
    const absl::Status status = CatchOneDnnErrors([&] {
      const SingleThreadedOneDnn single_threaded;
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      prepared->description =
          dnnl::matmul::primitive_desc(dnnl::matmul::desc(Describe(shape.m, shape.k, shape.transpose_a),
                                                          Describe(shape.k, shape.n, shape.transpose_b),
                                                          Describe(shape.m, shape.n, false)),
                                       attributes, HostEngine());
      prepared->primitive = dnnl::matmul(prepared->description);
      return absl::OkStatus();
    });
    prepared->is_supported = status.ok();
    if (!status.ok() && !absl::IsUnimplemented(status)) return status;
    return std::shared_ptr<const Prepared>(std::move(prepared));
  }

  static absl::Status Run(KernelContext& context, const Prepared& prepared, Tensor* c) {
    const auto& description = prepared.description;
    WEIR_ASSIGN_OR_RETURN(
        Tensor scratchpad,
        context.AllocateTemporary(DType::kUint8,
                                  {static_cast<int64_t>(description.scratchpad_desc().get_size())}));
    return CatchOneDnnErrors([&] {
      const SingleThreadedOneDnn single_threaded;
      const auto memory = [](const dnnl::memory::desc& desc, const Tensor& tensor) {
        return dnnl::memory(desc, HostEngine(), const_cast<void*>(tensor.data()));
      };
      prepared.primitive.execute(ThreadStream(),
                                 {{DNNL_ARG_SRC, memory(description.src_desc(), context.input(0))},
                                  {DNNL_ARG_WEIGHTS, memory(description.weights_desc(), context.input(1))},
                                  {DNNL_ARG_DST, memory(description.dst_desc(), *c)},
                                  {DNNL_ARG_SCRATCHPAD, memory(description.scratchpad_desc(), scratchpad)}});
      return absl::OkStatus();
    });
  }

  const Transposition transposition_;
  PreparedForms<ProductShape, Prepared> prepared_;
};

}  // namespace

void RegisterMatMulKernels(DeviceKernels& kernels) {
  kernels.Add<MatMul>("MatMul", Types<float, double, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                                      std::complex<float>, std::complex<double>>("T"));
  kernels.Add<HalfMatMul>("MatMul", {{"T", {DType::kHalf}}});
  kernels.Add<Bfloat16MatMul>("MatMul", {{"T", {DType::kBfloat16}}});
}

}  // namespace weir
