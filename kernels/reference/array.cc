#include "kernels/reference/array.h"

#include <utility>

namespace weir::reference {
namespace {

template <typename T>
Value ValueOf(const T& element) {
  if constexpr (std::is_same_v<T, std::string>) {
    Value value;
    value.text = element;
    return value;
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return Value(Number(element));
  } else {
    return Value(static_cast<double>(element));
  }
}

template <typename T>
T ElementOf(const Value& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return value.text;
  else if constexpr (std::is_same_v<T, bool>)
    return value.number != Number(0);
  else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return T(value.number);
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return T(static_cast<float>(value.real()));
  } else {
    return static_cast<T>(value.real());
  }
}

template <typename F>
void WithType(DType dtype, F f) {
  switch (StoredAs(dtype)) {
    case DType::kFloat32:
      return f(float());
    case DType::kFloat64:
      return f(double());
    case DType::kInt32:
      return f(int32_t());
    case DType::kInt64:
      return f(int64_t());
    case DType::kHalf:
      return f(Half());
    case DType::kBfloat16:
      return f(Bfloat16());
    case DType::kInt8:
      return f(int8_t());
    case DType::kUint8:
      return f(uint8_t());
    case DType::kInt16:
      return f(int16_t());
    case DType::kUint16:
      return f(uint16_t());
    case DType::kUint32:
      return f(uint32_t());
    case DType::kUint64:
      return f(uint64_t());
    case DType::kComplex64:
      return f(std::complex<float>());
    case DType::kComplex128:
      return f(std::complex<double>());
    case DType::kBool:
      return f(bool());
    case DType::kString:
      return f(std::string());
    default:
      return;
  }
}

}  // namespace

Array::Array(Index dims, Value fill) : dims_(std::move(dims)) {
  int64_t size = 1;
  for (int64_t dim : dims_) size *= dim;
  values_.assign(size, fill);
}

Array Array::FromTensor(const Tensor& tensor) {
  Array array(Index(tensor.shape().dims().begin(), tensor.shape().dims().end()));
  WithType(tensor.dtype(), [&](auto type) {
    for (int64_t i = 0; i < array.size(); ++i) array[i] = ValueOf(tensor.flat<decltype(type)>()[i]);
  });
  return array;
}

Tensor Array::ToTensor(DType dtype) const {
  Tensor tensor(dtype, Shape(absl::MakeConstSpan(dims_)));
  WithType(dtype, [&](auto type) {
    for (int64_t i = 0; i < size(); ++i)
      tensor.flat<decltype(type)>()[i] = ElementOf<decltype(type)>(values_[i]);
  });
  return tensor;
}

Index Array::IndexOf(int64_t position) const {
  Index index(rank());
  for (int i = rank() - 1; i >= 0; --i) {
    index[i] = position % dims_[i];
    position /= dims_[i];
  }
  return index;
}

int64_t Array::PositionOf(const Index& index) const {
  int64_t position = 0;
  for (int i = 0; i < rank(); ++i) position = position * dims_[i] + index[i];
  return position;
}

Index Array::integers() const {
  Index result;
  for (const Value& value : values_) result.push_back(value.integer());
  return result;
}

Array Array::WithDims(Index dims) const {
  Array result = *this;
  result.dims_ = std::move(dims);
  return result;
}

}  // namespace weir::reference
