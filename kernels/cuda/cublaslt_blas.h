// Products of matrices by cuBLASLt, which is opened at the first one. Single precision is single precision:
// TF32 is off.
//
// cuBLASLt's matrices are column-major. A row-major matrix is the transpose of a column-major one of the same
// bytes, and the transpose of op(a) op(b) is the product of the transposes in the other order: so the
// operands change places. The library's choice of an algorithm for a product is asked for once and kept, for
// each device, shape and alignment. Its workspace comes from the device's allocator and goes back at once:
// what the stream does next with that memory comes later. Thread safety: all methods.
#pragma once

#include <memory>

#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_blas.h"
#include "kernels/cuda/cuda_libraries.h"

namespace weir {

// A matrix in memory as cuBLASLt is told of it.
struct ColumnMajorMatrix {
  int64_t rows = 0, columns = 0;  // as it lies there
  int64_t leading = 0;            // elements from one column to the next
  bool is_transposed = false;     // before it is multiplied
  friend bool operator==(const ColumnMajorMatrix&, const ColumnMajorMatrix&) = default;
};
// `first` is the product's b, `second` its a.
struct ColumnMajorProduct {
  ColumnMajorMatrix first, second, result;
};
ColumnMajorProduct AsColumnMajor(const MatrixProduct& product);

class CublasLtBlas : public CudaBlas {
 public:
  // Makes what cuBLASLt is told of the product, and forgets it again; needs no GPU. The errors are those of
  // Multiply that have to do with the library and the product.
  virtual absl::Status Check(const MatrixProduct& product) = 0;
};

// Borrows both. In a build without the toolkit every call is NotFound.
std::unique_ptr<CublasLtBlas> MakeCublasLtBlas(CudaApi& api, CudaLibraries& libraries);

}  // namespace weir
