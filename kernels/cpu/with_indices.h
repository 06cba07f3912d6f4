// Loops over indices of int32 or int64, whose type is chosen once and not for each.
#pragma once

#include <cstdint>

#include "graph/types/tensor.h"

namespace weir {

// use(elements) with a pointer to the tensor's elements. Precondition: it is of int32 or int64.
template <typename Use>
auto WithIndices(const Tensor& tensor, const Use& use) {
  return tensor.dtype() == DType::kInt64 ? use(tensor.flat<int64_t>().data())
                                         : use(tensor.flat<int32_t>().data());
}

}  // namespace weir
