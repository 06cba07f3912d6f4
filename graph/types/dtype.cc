#include "graph/types/dtype.h"

#include <array>

#include "graph/types/resource_handle.h"

namespace weir {
namespace {

struct Entry {
  DType dtype;
  absl::string_view name;
  absl::string_view alias;
  size_t num_bytes;
};

constexpr std::array<Entry, 30> kEntries = {{
    {DType::kFloat32, "float", "float32", 4},
    {DType::kFloat64, "double", "float64", 8},
    {DType::kInt32, "int32", "int32", 4},
    {DType::kUint8, "uint8", "uint8", 1},
    {DType::kInt16, "int16", "int16", 2},
    {DType::kInt8, "int8", "int8", 1},
    {DType::kString, "string", "string", sizeof(std::string)},
    {DType::kComplex64, "complex64", "complex64", 8},
    {DType::kInt64, "int64", "int64", 8},
    {DType::kBool, "bool", "bool", 1},
    {DType::kBfloat16, "bfloat16", "bfloat16", 2},
    {DType::kUint16, "uint16", "uint16", 2},
    {DType::kComplex128, "complex128", "complex128", 16},
    {DType::kHalf, "half", "float16", 2},
    {DType::kResource, "resource", "resource", sizeof(ResourceHandle)},
    {DType::kVariant, "variant", "variant", sizeof(ResourceHandle)},
    {DType::kUint32, "uint32", "uint32", 4},
    {DType::kUint64, "uint64", "uint64", 8},
    {DType::kQint8, "qint8", "qint8", 1},
    {DType::kQuint8, "quint8", "quint8", 1},
    {DType::kQint32, "qint32", "qint32", 4},
    {DType::kQint16, "qint16", "qint16", 2},
    {DType::kQuint16, "quint16", "quint16", 2},
    {DType::kFloat8E5m2, "float8_e5m2", "float8_e5m2", 1},
    {DType::kFloat8E4m3fn, "float8_e4m3fn", "float8_e4m3fn", 1},
    {DType::kFloat8E4m3Fnuz, "float8_e4m3fnuz", "float8_e4m3fnuz", 1},
    {DType::kFloat8E4m3b11Fnuz, "float8_e4m3b11fnuz", "float8_e4m3b11fnuz", 1},
    {DType::kFloat8E5m2Fnuz, "float8_e5m2fnuz", "float8_e5m2fnuz", 1},
    {DType::kInt4, "int4", "int4", 1},
    {DType::kUint4, "uint4", "uint4", 1},
}};

const Entry* Find(DType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype) return &entry;
  }
  return nullptr;
}

}  // namespace

absl::string_view DTypeName(DType dtype) {
  const Entry* entry = Find(dtype);
  return entry == nullptr ? "invalid" : entry->name;
}

std::optional<DType> ParseDType(absl::string_view name) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name || name == entry.alias) return entry.dtype;
  }
  return std::nullopt;
}

bool IsKnownDType(int value) {
  return value > 0 && value < 256 && Find(static_cast<DType>(value)) != nullptr;
}

size_t DTypeSize(DType dtype) {
  const Entry* entry = Find(dtype);
  return entry == nullptr ? 0 : entry->num_bytes;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << DTypeName(dtype); }

}  // namespace weir
