// The value of a node's attribute: what the graph's author fixed before the first step.
//
// A value type; Tensors inside share their buffers. Kinds and their spelling are those of TensorFlow's
// AttrValue.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/types/dtype.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"

namespace weir {

// In the order of AttrValue::Value.
enum class AttrKind {
  kNone,
  kString,
  kInt,
  kFloat,
  kBool,
  kType,
  kShape,
  kTensor,
  kFunction,
  kStringList,
  kIntList,
  kFloatList,
  kBoolList,
  kTypeList,
  kShapeList,
};

// "int", "list(type)"...: as op schemas write it.
absl::string_view AttrKindName(AttrKind kind);

// A function of the graph's library, by name.
struct FunctionName {
  std::string name;
  friend bool operator==(const FunctionName&, const FunctionName&) = default;
};

class AttrValue {
 public:
  using Value = std::variant<std::monostate, std::string, int64_t, float, bool, DType, PartialShape, Tensor,
                             FunctionName, std::vector<std::string>, std::vector<int64_t>, std::vector<float>,
                             std::vector<bool>, std::vector<DType>, std::vector<PartialShape>>;

  AttrValue() = default;
  AttrValue(const char* value) : value_(std::string(value)) {}
  AttrValue(absl::string_view value) : value_(std::string(value)) {}
  AttrValue(std::string value) : value_(std::move(value)) {}
  AttrValue(int value) : value_(int64_t{value}) {}
  AttrValue(int64_t value) : value_(value) {}
  AttrValue(float value) : value_(value) {}
  AttrValue(double value) : value_(static_cast<float>(value)) {}
  AttrValue(bool value) : value_(value) {}
  AttrValue(DType value) : value_(value) {}
  AttrValue(PartialShape value) : value_(std::move(value)) {}
  AttrValue(const Shape& value) : value_(PartialShape(value)) {}
  AttrValue(Tensor value) : value_(std::move(value)) {}
  AttrValue(FunctionName value) : value_(std::move(value)) {}
  AttrValue(std::vector<std::string> value) : value_(std::move(value)) {}
  AttrValue(std::vector<int64_t> value) : value_(std::move(value)) {}
  AttrValue(std::vector<float> value) : value_(std::move(value)) {}
  AttrValue(std::vector<bool> value) : value_(std::move(value)) {}
  AttrValue(std::vector<DType> value) : value_(std::move(value)) {}
  AttrValue(std::vector<PartialShape> value) : value_(std::move(value)) {}
  template <typename Pointer>
  AttrValue(Pointer*) = delete;  // a stray pointer must not become a bool

  AttrKind kind() const { return static_cast<AttrKind>(value_.index()); }
  const Value& value() const { return value_; }

  // The value if it has type T, else null.
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  // Precondition: the value has type T. A node's attributes do have their schema's kinds.
  template <typename T>
  const T& get() const {
    return *std::get_if<T>(&value_);
  }

  std::string ToString() const;  // "float", "[1, 2]", "\"SAME\""

  // Tensors are equal when dtype, shape and elements are (NaN equals the same NaN bits).
  friend bool operator==(const AttrValue& a, const AttrValue& b);

 private:
  Value value_;
};

using AttrMap = std::map<std::string, AttrValue, std::less<>>;

}  // namespace weir
