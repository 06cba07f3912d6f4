// Products of bfloat16 matrices by oneDNN, which sums in float and rounds once. Rows (or columns) of the
// result are divided among the threads.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/onednn.h"
#include "kernels/kernel_context.h"
#include "kernels/prepared_forms.h"

namespace weir {

// The products of one kernel, prepared at first use. Thread safety: all methods.
class Bfloat16Products {
 public:
  // c = op(a) op(b). Unimplemented, and nothing is written, where the processor has no instructions for it or
  // the product is of nothing.
  absl::Status Run(KernelContext& context, const ProductShape& shape, const Tensor& a, const Tensor& b,
                   Tensor* c);

 private:
  // Some rows or columns of a product: how far apart the rows of the whole matrices lie is part of it.
  struct Piece {
    ProductShape shape;
    int64_t a_stride = 0, b_stride = 0, c_stride = 0;
    bool operator==(const Piece& other) const = default;
  };
  struct Prepared;

  static absl::StatusOr<std::shared_ptr<const Prepared>> Prepare(const Piece& piece);
  absl::StatusOr<std::shared_ptr<const Prepared>> FindOrPrepare(const ProductShape& whole, bool splits_rows,
                                                                int64_t side);

  PreparedForms<Piece, Prepared> prepared_;
};

}  // namespace weir
