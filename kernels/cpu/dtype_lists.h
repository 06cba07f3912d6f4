// Lists of dtypes for the type attrs of kernels that take many.
#pragma once

#include <vector>

#include "graph/types/dtype.h"

namespace weir {

// Everything that has elements, of numbers, of numbers that have an order, of
// numbers and bool.
std::vector<DType> AllDTypes();
std::vector<DType> NumericDTypes();
std::vector<DType> RealDTypes();
std::vector<DType> CountableDTypes();

}  // namespace weir
