// Lists of dtypes for the type attrs of kernels that take many.
#pragma once

#include <vector>

#include "graph/types/dtype.h"

namespace weir {

// Everything that has elements, of numbers, of numbers that have an order, of numbers and bool. Quantized
// numbers and those of eight bits are among the first, not among numbers.
std::vector<DType> AllDTypes();
std::vector<DType> NumericDTypes();
std::vector<DType> RealDTypes();
std::vector<DType> CountableDTypes();
std::vector<DType> QuantizedDTypes();
std::vector<DType> Float8DTypes();
// Numbers, quantized ones, floating ones of eight bits, integers of four.
std::vector<DType> StoredNumbers();

}  // namespace weir
