#include "graph/rewrite/constant_operand.h"

#include <algorithm>
#include <cmath>

namespace weir {
namespace {

// Larger constants are not looked at: a rule must cost less than it saves.
constexpr int64_t kMaxElements = 1 << 12;

template <typename T>
bool AllAre(const Tensor& tensor, double value) {
  const auto elements = tensor.flat<T>();
  return std::all_of(elements.begin(), elements.end(), [value](const T& element) {
    const double number = static_cast<double>(element);
    return number == value && std::signbit(number) == std::signbit(value);
  });
}

}  // namespace

const Tensor* ConstantValue(const Output& output) {
  const Node& node = *output.node;
  if (node.op_name() != "Const" || !node.control_inputs().empty()) return nullptr;
  return node.FindAttr("value")->get_if<Tensor>();
}

std::optional<std::vector<int64_t>> ConstantIntegers(const Output& output) {
  const Tensor* const value = ConstantValue(output);
  if (value == nullptr || value->num_elements() > kMaxElements) return std::nullopt;
  if (value->dtype() == DType::kInt32) {
    return std::vector<int64_t>(value->flat<int32_t>().begin(), value->flat<int32_t>().end());
  }
  if (value->dtype() == DType::kInt64) {
    return std::vector<int64_t>(value->flat<int64_t>().begin(), value->flat<int64_t>().end());
  }
  return std::nullopt;
}

bool IsConstantOf(const Output& output, double value) {
  const Tensor* const tensor = ConstantValue(output);
  if (tensor == nullptr || tensor->num_elements() > kMaxElements) return false;
  switch (tensor->dtype()) {
    case DType::kFloat32:
      return AllAre<float>(*tensor, value);
    case DType::kFloat64:
      return AllAre<double>(*tensor, value);
    case DType::kHalf:
      return AllAre<Half>(*tensor, value);
    case DType::kBfloat16:
      return AllAre<Bfloat16>(*tensor, value);
    case DType::kInt8:
      return AllAre<int8_t>(*tensor, value);
    case DType::kInt16:
      return AllAre<int16_t>(*tensor, value);
    case DType::kInt32:
      return AllAre<int32_t>(*tensor, value);
    case DType::kInt64:
      return AllAre<int64_t>(*tensor, value);
    case DType::kUint8:
      return AllAre<uint8_t>(*tensor, value);
    case DType::kUint16:
      return AllAre<uint16_t>(*tensor, value);
    case DType::kUint32:
      return AllAre<uint32_t>(*tensor, value);
    case DType::kUint64:
      return AllAre<uint64_t>(*tensor, value);
    default:
      return false;
  }
}

}  // namespace weir
