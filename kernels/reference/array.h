// An n-dimensional array of values, addressed by coordinates.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/node.h"
#include "graph/types/tensor.h"

namespace weir::reference {

using Number = std::complex<double>;
using Index = std::vector<int64_t>;

// An element: a number, or a string.
struct Value {
  Value() = default;
  Value(Number number) : number(number) {}
  Value(double number) : number(number) {}
  double real() const { return number.real(); }
  int64_t integer() const { return static_cast<int64_t>(number.real()); }
  bool is_zero() const { return number == Number(0); }

  Number number = 0;
  std::string text;
};

class Array {
 public:
  Array() = default;
  explicit Array(Index dims, Value fill = Value());
  static Array FromTensor(const Tensor& tensor);
  Tensor ToTensor(DType dtype) const;

  const Index& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }

  Value& operator[](int64_t position) { return values_[position]; }
  const Value& operator[](int64_t position) const { return values_[position]; }
  Value& at(const Index& index) { return values_[PositionOf(index)]; }
  const Value& at(const Index& index) const { return values_[PositionOf(index)]; }

  Index IndexOf(int64_t position) const;
  int64_t PositionOf(const Index& index) const;
  // The elements as integers, for inputs that are axes, shapes or permutations.
  Index integers() const;
  Array WithDims(Index dims) const;

 private:
  Index dims_;
  std::vector<Value> values_;
};

// A node's inputs, and where its reference puts the outputs.
struct Call {
  const Node& node;
  std::vector<Array> inputs;
  std::vector<Array> outputs;

  const Array& in(int i) const { return inputs[i]; }
  int64_t integer(const char* attr) const { return node.attr<int64_t>(attr); }
  bool flag(const char* attr) const { return node.attr<bool>(attr); }
  const std::string& text(const char* attr) const { return node.attr<std::string>(attr); }
  const std::vector<int64_t>& integers(const char* attr) const {
    return node.attr<std::vector<int64_t>>(attr);
  }
  // The dimension an axis names.
  static int Axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }
};

using Reference = std::function<void(Call&)>;
}  // namespace weir::reference
