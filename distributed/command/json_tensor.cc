#include "distributed/command/json_tensor.h"

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/float16.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

template <typename T>
constexpr bool kIsFloating =
    std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

// Calls f(T()) for the dtypes that JSON can say; Unimplemented for others.
template <typename F>
absl::Status WithElementType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float());
    case DType::kFloat64:
      return f(double());
    case DType::kHalf:
      return f(Half());
    case DType::kBfloat16:
      return f(Bfloat16());
    case DType::kInt8:
      return f(int8_t());
    case DType::kInt16:
      return f(int16_t());
    case DType::kInt32:
      return f(int32_t());
    case DType::kInt64:
      return f(int64_t());
    case DType::kUint8:
      return f(uint8_t());
    case DType::kUint16:
      return f(uint16_t());
    case DType::kUint32:
      return f(uint32_t());
    case DType::kUint64:
      return f(uint64_t());
    case DType::kBool:
      return f(bool());
    case DType::kString:
      return f(std::string());
    default:
      return absl::UnimplementedError(absl::StrCat("JSON cannot hold a tensor of ", DTypeName(dtype)));
  }
}

absl::Status WrongValue(const Json& json, DType dtype) {
  return absl::InvalidArgumentError(absl::StrCat("'", Excerpt(json), "' is no ", DTypeName(dtype)));
}

template <typename T>
absl::StatusOr<T> ElementFromJson(const Json& json) {
  const absl::Status wrong = WrongValue(json, DTypeOf<T>);
  if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) return wrong;
    return json.get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) return wrong;
    return json.get<bool>();
  } else if constexpr (kIsFloating<T>) {
    if (!json.is_number()) return wrong;
    return T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(json.get<double>()));
  } else if (json.is_number_unsigned()) {
    const uint64_t value = json.get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<T>::max())) return wrong;
    return static_cast<T>(value);
  } else {
    if (!json.is_number_integer()) return wrong;
    const int64_t value = json.get<int64_t>();  // negative
    if (std::is_unsigned_v<T> || value < static_cast<int64_t>(std::numeric_limits<T>::min())) return wrong;
    return static_cast<T>(value);
  }
}

// The shape of nested lists, by the first element of each.
absl::StatusOr<Shape> ShapeOf(const Json& json) {
  std::vector<int64_t> dims;
  for (const Json* part = &json; part->is_array(); part = &part->front()) {
    dims.push_back(static_cast<int64_t>(part->size()));
    if (part->empty()) break;
  }
  return Shape::FromDims(dims);
}

// Appends the elements in order; every list must have the length that the shape says.
template <typename T>
absl::Status Collect(const Json& json, const Shape& shape, int depth, absl::Span<T> elements, size_t* next) {
  if (depth == shape.rank()) {
    WEIR_ASSIGN_OR_RETURN(elements[(*next)++], ElementFromJson<T>(json));
    return absl::OkStatus();
  }
  if (!json.is_array() || static_cast<int64_t>(json.size()) != shape.dim(depth)) {
    return absl::InvalidArgumentError(absl::StrCat("lists of unequal lengths: '", Excerpt(json),
                                                   "' should be a list of ", shape.dim(depth)));
  }
  for (const Json& part : json) WEIR_RETURN_IF_ERROR(Collect(part, shape, depth + 1, elements, next));
  return absl::OkStatus();
}

DType NaturalType(const Json& json) {
  const Json* part = &json;
  while (part->is_array() && !part->empty()) part = &part->front();
  if (part->is_string()) return DType::kString;
  return part->is_boolean() ? DType::kBool : DType::kFloat32;
}

template <typename T>
Json JsonOf(const T& element) {
  if constexpr (std::is_same_v<T, std::string>) {
    const bool is_utf8 = Json(element).dump(-1, ' ', false, Json::error_handler_t::replace) ==
                         Json(element).dump(-1, ' ', false, Json::error_handler_t::ignore);
    return is_utf8 ? Json(element) : Json(absl::CHexEscape(element));
  } else if constexpr (kIsFloating<T>) {
    const double value = static_cast<double>(
        static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(element));
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  } else {
    return element;
  }
}

template <typename T>
Json Nest(const Shape& shape, int depth, absl::Span<const T> elements, size_t* next) {
  if (depth == shape.rank()) return JsonOf(elements[(*next)++]);
  Json list = Json::array();
  for (int64_t i = 0; i < shape.dim(depth); ++i) list.push_back(Nest(shape, depth + 1, elements, next));
  return list;
}

}  // namespace

absl::StatusOr<Tensor> TensorFromJson(const Json& json, DType dtype) {
  if (dtype == DType::kInvalid) dtype = NaturalType(json);
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(json));
  Tensor tensor;
  const absl::Status status = WithElementType(dtype, [&]<typename T>(T) -> absl::Status {
    WEIR_ASSIGN_OR_RETURN(tensor, Tensor::Allocate(dtype, shape));
    size_t next = 0;
    return Collect<T>(json, shape, 0, tensor.flat<T>(), &next);
  });
  if (!status.ok()) return status;
  return tensor;
}

absl::StatusOr<Json> JsonFromTensor(const Tensor& tensor) {
  Json json;
  const absl::Status status = WithElementType(tensor.dtype(), [&]<typename T>(T) {
    size_t next = 0;
    json = Nest<T>(tensor.shape(), 0, tensor.flat<T>(), &next);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return json;
}

}  // namespace weir
