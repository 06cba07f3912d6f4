// Element types of tensors.
//
// Values and names are TensorFlow's (types.proto), so a DType is written to files and the wire as it is.
// A reference type (TensorFlow's value + 100) never appears inside Weir: interchange turns reference
// variables into resources when a graph is imported.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "graph/types/float16.h"

namespace weir {

struct ResourceHandle;

enum class DType : uint8_t {
  kInvalid = 0,
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
  // Tensors hold these, and arithmetic does not know them: see StoredAs.
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kQint16 = 15,
  kQuint16 = 16,
  // Floating numbers of a byte: graph/types/float8.h.
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kFloat8E4m3Fnuz = 26,
  kFloat8E4m3b11Fnuz = 27,
  kFloat8E5m2Fnuz = 28,
  kInt4 = 29,
  kUint4 = 30,
};

// The dtype whose C++ type the elements have: of quantized integers, and of integers of four bits and
// floating numbers of eight, which take a byte. Every other dtype is stored as itself. The former can be fed,
// fetched, kept in variables and checkpoints, moved, reshaped and cast (but for integers of four bits); only
// kernels for quantized numbers compute with them (kernels/cpu/quantized_range.h says what they stand for).
constexpr DType StoredAs(DType dtype) {
  switch (dtype) {
    case DType::kQint8:
    case DType::kInt4:
      return DType::kInt8;
    case DType::kQuint8:
    case DType::kUint4:
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3Fnuz:
    case DType::kFloat8E4m3b11Fnuz:
    case DType::kFloat8E5m2Fnuz:
      return DType::kUint8;
    case DType::kQint32:
      return DType::kInt32;
    case DType::kQint16:
      return DType::kInt16;
    case DType::kQuint16:
      return DType::kUint16;
    default:
      return dtype;
  }
}

// TensorFlow's short name: "float", "int32", "resource"...; "invalid" for kInvalid and unknown values.
absl::string_view DTypeName(DType dtype);

// The dtype of that name ("float" and "float32" both name kFloat32); nullopt when there is none.
std::optional<DType> ParseDType(absl::string_view name);

// True for the values listed above except kInvalid.
bool IsKnownDType(int value);

// Bytes of one element in memory. For kString and kResource it is the size of the C++ object that stands in
// the buffer (std::string, ResourceHandle), whose bytes have no meaning outside this process.
size_t DTypeSize(DType dtype);

// True when elements are plain bytes that may be copied and sent as they are.
constexpr bool IsPlainBytes(DType dtype) {
  return dtype != DType::kString && dtype != DType::kResource && dtype != DType::kVariant;
}
constexpr bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kHalf ||
         dtype == DType::kBfloat16;
}
constexpr bool IsComplex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

std::ostream& operator<<(std::ostream& out, DType dtype);

// The DType of a C++ element type: DTypeOf<float> is kFloat32. A type without one does not compile.
template <typename T>
inline constexpr DType DTypeOf = [] {
  if constexpr (std::is_same_v<T, float>)
    return DType::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kFloat64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::kInt32;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::kUint8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::kInt16;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::kInt8;
  else if constexpr (std::is_same_v<T, std::string>)
    return DType::kString;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::kComplex64;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::kInt64;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<T, Bfloat16>)
    return DType::kBfloat16;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return DType::kUint16;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return DType::kComplex128;
  else if constexpr (std::is_same_v<T, Half>)
    return DType::kHalf;
  else if constexpr (std::is_same_v<T, ResourceHandle>)
    return DType::kResource;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return DType::kUint32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return DType::kUint64;
  else
    static_assert(!sizeof(T), "this C++ type is no tensor element type");
}();

}  // namespace weir
