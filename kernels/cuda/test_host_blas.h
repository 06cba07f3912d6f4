// Products of matrices for a RecordingCudaApi: plain loops on the host, when the work's turn comes.
//
// The API and this must live as long as products. Thread safety: all methods.
#pragma once

#include <type_traits>
#include <utility>

#include "graph/types/tensor.h"
#include "kernels/cuda/cuda_blas.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {

class HostBlas final : public CudaBlas {
 public:
  explicit HostBlas(RecordingCudaApi& api) : api_(api) {
    api.SetKernel(this, [](const RecordingCudaApi::Launched& launched) {
      const auto product = launched.argument<MatrixProduct>(0);
      cuda::VisitFloats([&]<typename T>() {
        if (DTypeOf<T> == product.dtype) Compute<T>(product);
      });
    });
  }

  absl::Status Multiply(CudaStream& stream, Allocator& allocator, const MatrixProduct& product) override {
    // Taken and given back at once, as the real one does it.
    const absl::StatusOr<Tensor> workspace = Tensor::Allocate(DType::kUint8, Shape({1024}), allocator);
    if (!workspace.ok()) return workspace.status();
    const CudaArgument arguments[] = {{&product, sizeof(product)}};
    return api_.Launch({"cublasLtMatmul", this}, CudaGrid(), arguments, stream.handle());
  }

 private:
  template <typename T>
  static void Compute(const MatrixProduct& product) {
    using Number = std::decay_t<decltype(cuda::Load(std::declval<const T&>()))>;
    const auto* const a = static_cast<const T*>(product.a);
    const auto* const b = static_cast<const T*>(product.b);
    for (int64_t i = 0; i < product.m; ++i) {
      for (int64_t j = 0; j < product.n; ++j) {
        Number sum = 0;
        for (int64_t l = 0; l < product.k; ++l) {
          const T& x = a[product.transpose_a ? l * product.m + i : i * product.k + l];
          const T& y = b[product.transpose_b ? j * product.k + l : l * product.n + j];
          sum += cuda::Load(x) * cuda::Load(y);
        }
        cuda::Store(static_cast<T*>(product.c)[i * product.n + j], sum);
      }
    }
  }

  RecordingCudaApi& api_;
};

}  // namespace weir
