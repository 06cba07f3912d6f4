// What cublaslt_blas.h is in a build without the toolkit.
#include "kernels/cuda/cublaslt_blas.h"

namespace weir {
namespace {

class NoBlas final : public CublasLtBlas {
 public:
  absl::Status Check(const MatrixProduct&) override {
    return absl::NotFoundError("products of matrices on GPUs: this program was built without CUDA");
  }
  absl::Status Multiply(CudaStream&, Allocator&, const MatrixProduct& product) override {
    return Check(product);
  }
};

}  // namespace

std::unique_ptr<CublasLtBlas> MakeCublasLtBlas(CudaApi&, CudaLibraries&) {
  return std::make_unique<NoBlas>();
}

}  // namespace weir
