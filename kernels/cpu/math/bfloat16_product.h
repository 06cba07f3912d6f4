// Products of bfloat16 matrices by oneDNN, which sums in float and rounds once.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/onednn.h"
#include "kernels/kernel_context.h"

namespace weir {

// The products of one kernel, prepared at first use. Thread safety: all methods.
class Bfloat16Products {
 public:
  // c = op(a) op(b). Unimplemented, and nothing is written, where the processor has no instructions for it or
  // the product is of nothing.
  absl::Status Run(KernelContext& context, const ProductShape& shape, const Tensor& a, const Tensor& b,
                   Tensor* c);

 private:
  struct Prepared;
  static absl::StatusOr<std::shared_ptr<const Prepared>> Prepare(const ProductShape& shape);

  PreparedForms<ProductShape, Prepared> prepared_;
};

}  // namespace weir
