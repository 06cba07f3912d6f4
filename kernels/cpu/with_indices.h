// Loops over indices of int16, int32 or int64, whose type is chosen once and not for each.
#pragma once

#include <cstdint>

#include "graph/types/tensor.h"

namespace weir {

// use(elements) with a pointer to the tensor's elements. Precondition: it is of int16, int32 or int64.
template <typename Use>
auto WithIndices(const Tensor& tensor, const Use& use) {
  if (tensor.dtype() == DType::kInt64) return use(tensor.flat<int64_t>().data());
  if (tensor.dtype() == DType::kInt16) return use(tensor.flat<int16_t>().data());
  return use(tensor.flat<int32_t>().data());
}

}  // namespace weir
