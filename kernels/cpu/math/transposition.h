// Which operands of a product of two matrices are read transposed: attrs transpose_a and transpose_b.
#pragma once

#include "absl/status/statusor.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/kernel.h"

namespace weir {

class Transposition {
 public:
  explicit Transposition(const KernelConstruction& construction)
      : a_(construction.attr<bool>("transpose_a")), b_(construction.attr<bool>("transpose_b")) {}

  // The product that the inputs ask for, or what is wrong with them.
  absl::StatusOr<ProductShape> ShapeOfProduct(const Shape& a, const Shape& b) const {
    return ProductOf(a, b, a_, b_);
  }

 private:
  const bool a_;
  const bool b_;
};

// Of matrices without elements the product may have more than there can be.
inline absl::StatusOr<Tensor*> AllocateProduct(KernelContext& context, const ProductShape& product) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({product.m, product.n}));
  return context.AllocateOutput(0, shape);
}

}  // namespace weir
