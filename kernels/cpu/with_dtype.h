// From a DType to the C++ type of its elements.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "graph/types/dtype.h"
#include "graph/types/resource_handle.h"

namespace weir {

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls f(TypeTag<T>()) for a numeric dtype; false for any other.
template <typename F>
bool WithNumericType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      f(TypeTag<float>());
      return true;
    case DType::kFloat64:
      f(TypeTag<double>());
      return true;
    case DType::kInt32:
      f(TypeTag<int32_t>());
      return true;
    case DType::kInt64:
      f(TypeTag<int64_t>());
      return true;
    case DType::kHalf:
      f(TypeTag<Half>());
      return true;
    case DType::kBfloat16:
      f(TypeTag<Bfloat16>());
      return true;
    case DType::kInt8:
      f(TypeTag<int8_t>());
      return true;
    case DType::kUint8:
      f(TypeTag<uint8_t>());
      return true;
    case DType::kInt16:
      f(TypeTag<int16_t>());
      return true;
    case DType::kUint16:
      f(TypeTag<uint16_t>());
      return true;
    case DType::kUint32:
      f(TypeTag<uint32_t>());
      return true;
    case DType::kUint64:
      f(TypeTag<uint64_t>());
      return true;
    case DType::kComplex64:
      f(TypeTag<std::complex<float>>());
      return true;
    case DType::kComplex128:
      f(TypeTag<std::complex<double>>());
      return true;
    default:
      return false;
  }
}

struct SixteenBytes {
  uint64_t parts[2];
};

// Calls f(TypeTag<T>()) with a type whose assignment copies an element of the dtype: an integer as wide, or
// the object.
template <typename F>
void WithElementType(DType dtype, F&& f) {
  if (dtype == DType::kString) return f(TypeTag<std::string>());
  if (dtype == DType::kResource) return f(TypeTag<ResourceHandle>());
  switch (DTypeSize(dtype)) {
    case 1:
      return f(TypeTag<uint8_t>());
    case 2:
      return f(TypeTag<uint16_t>());
    case 4:
      return f(TypeTag<uint32_t>());
    case 8:
      return f(TypeTag<uint64_t>());
    default:
      return f(TypeTag<SixteenBytes>());
  }
}

}  // namespace weir
