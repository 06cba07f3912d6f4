#include "kernels/cuda/cublaslt_blas.h"

namespace weir {

ColumnMajorProduct AsColumnMajor(const MatrixProduct& product) {
  const auto [dtype, m, n, k, transpose_a, transpose_b, a, b, c] = product;
  const auto matrix = [](int64_t row_major_rows, int64_t row_major_columns, bool is_transposed) {
    return ColumnMajorMatrix{.rows = row_major_columns,
                             .columns = row_major_rows,
                             .leading = row_major_columns,
                             .is_transposed = is_transposed};
  };
  return {.first = transpose_b ? matrix(n, k, true) : matrix(k, n, false),
          .second = transpose_a ? matrix(k, m, true) : matrix(m, k, false),
          .result = matrix(m, n, false)};
}

}  // namespace weir
