// Lists of dtypes for the type attrs of kernels that take many.
#pragma once

#include <vector>

#include "graph/types/dtype.h"

namespace weir {

// Everything that has elements, of numbers, of numbers that have an order, of numbers and bool. Quantized
// numbers are among the first, not among numbers.
std::vector<DType> AllDTypes();
std::vector<DType> NumericDTypes();
std::vector<DType> RealDTypes();
std::vector<DType> CountableDTypes();
std::vector<DType> QuantizedDTypes();
// Numbers, quantized ones, and integers of four bits.
std::vector<DType> StoredNumbers();

}  // namespace weir
