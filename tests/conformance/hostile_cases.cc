#include "tests/conformance/hostile_cases.h"

#include <cmath>
#include <limits>

namespace weir::conformance {
namespace {

using D = DType;
using List = std::vector<int64_t>;

constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();
constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
constexpr int64_t kShortest = std::numeric_limits<int64_t>::min();
constexpr int64_t kWide = int64_t{1} << 40;  // twice this is more than a shape can have

Tensor F(List dims) { return Sample(D::kFloat32, std::move(dims)); }
Tensor L(int64_t value) { return Tensor::Scalar(value); }
Tensor Float(double value) { return Make(D::kFloat32, {}, {value}); }
Tensor Matrix(std::vector<int64_t> values) {
  return Tensor::FromSpan<int64_t>({static_cast<int64_t>(values.size()) / 2, 2}, values);
}
Tensor Bools(List dims, std::vector<double> values) {
  return Make(D::kBool, std::move(dims), std::move(values));
}
Tensor Words(std::vector<std::string> words) {
  const auto count = static_cast<int64_t>(words.size());
  return Strings({count}, std::move(words));
}
// Has no elements, but dimensions that a result may multiply.
Tensor Empty(List dims, D dtype = D::kFloat32) { return Tensor(dtype, Shape(absl::MakeConstSpan(dims))); }

std::vector<CaseInput> Repeat(const Tensor& tensor, int count) {
  return {static_cast<size_t>(count), tensor};
}

class Table {
 public:
  // Adds one case.
  void operator()(std::string op, std::vector<CaseInput> inputs, std::string error, AttrMap attrs = {},
                  absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    cases.push_back({std::move(op), std::move(attrs), std::move(inputs), std::move(error), code});
  }
  void OutOfMemory(std::string op, std::vector<CaseInput> inputs, AttrMap attrs = {}) {
    (*this)(std::move(op), std::move(inputs), "out of memory", std::move(attrs),
            absl::StatusCode::kResourceExhausted);
  }

  std::vector<HostileCase> cases;
};

void AddElementwise(Table& add) {
  for (const char* op : {"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "FloorDiv", "FloorMod",
                         "Pow", "SquaredDifference", "Maximum", "Minimum", "Less", "LessEqual", "Greater",
                         "GreaterEqual", "Equal", "NotEqual"}) {
    add(op, {F({2, 3}), F({4})}, "Incompatible shapes: [2,3] vs. [4]");
    add(op, {Empty({kWide, 0, 1}), Empty({0, kWide})}, "no shape has the dimensions");
  }
  for (const char* op : {"LogicalAnd", "LogicalOr"}) {
    add(op, {Bools({2}, {1, 0}), Bools({3}, {1, 0, 1})}, "Incompatible shapes: [2] vs. [3]");
  }
  for (const char* op : {"TanhGrad", "SigmoidGrad"}) {
    add(op, {F({2, 3}), F({4})}, "[2,3]");
    add(op, {F({2, 3}), F({3})}, "[2,3]");
  }
  for (const char* op : {"Div", "FloorDiv", "FloorMod"}) {
    add(op, {Ints({1, 2}), Ints({1, 0})}, "Integer division by zero");
    add(op, {Longs({1, 2}), L(0)}, "Integer division by zero");
  }
  add("Reciprocal", {Ints({1, 0})}, "Integer division by zero");
  add("Pow", {Ints({2}), Ints({-1})}, "negative integer powers");
  add("AddN", {std::vector<Tensor>{F({2}), F({3})}}, "inputs[1] is [3]");
  add("AddN", {std::vector<Tensor>{F({0}), F({1})}}, "inputs[1] is [1]");
}

void AddReductions(Table& add) {
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
    add(op, {F({2, 3}), Ints({2})}, "reduction_indices[0] = 2 is not in [-2, 2)");
    add(op, {F({2, 3}), Ints({0, -2})}, "twice");
    add(op, {F({}), Longs({kShortest})}, "is not in [0, 0)");
    add.OutOfMemory(op, {Empty({kWide, 0}), Ints({1})});
  }
  for (const char* op : {"All", "Any"}) {
    add(op, {Bools({2}, {1, 0}), Int(1)}, "reduction_indices[0] = 1 is not in [-1, 1)");
    add(op, {Bools({2}, {1, 0}), Ints({0, 0})}, "twice");
  }
  add("ArgMax", {F({2, 0}), Int(1)}, "is empty in shape [2,0]");
  add("ArgMax", {F({2, 3}), Int(-3)}, "dimension = -3 is not in [-2, 2)");
  add("ArgMax", {F({}), Int(0)}, "dimension = 0 is not in [0, 0)");
  add("ArgMax", {F({2, 3}), Ints({0, 1})}, "dimension must be a scalar");
  add("MatMul", {F({2, 3}), F({2, 3})}, "inner dimensions differ: a is [2,3], b is [2,3]");
  add("MatMul", {F({2, 3}), F({3})}, "must be matrices");
  for (D dtype : {D::kFloat32, D::kFloat64, D::kHalf, D::kBfloat16, D::kInt32}) {
    add("MatMul", {Empty({kWide, 0}, dtype), Empty({0, kWide}, dtype)}, "no shape has the dimensions");
    add.OutOfMemory("MatMul", {Empty({kWide, 0}, dtype), Empty({0, 2}, dtype)});
  }
}

void AddShapes(Table& add) {
  add("Shape", {Empty({kWide, 0})}, "does not fit in int32");
  add("ShapeN", {std::vector<Tensor>{F({1}), Empty({kWide, 0})}}, "does not fit in int32");
  add("Reshape", {F({2, 3}), Ints({4})}, "6 values");
  add("Reshape", {F({2, 3}), Ints({-1, -1})}, "only one dimension may be -1");
  add("Reshape", {F({2, 3}), Ints({-1, 0})}, "6 values");
  add("Reshape", {F({0, 3}), Ints({-1, 0})}, "0 values");
  add("Reshape", {F({2, 3}), Ints({-1, 4})}, "6 values");
  add("Reshape", {F({2, 3}), Ints({-2, -3})}, "6 values");
  add("Reshape", {F({2, 3}), Longs({kShortest, -1})}, "6 values");
  add("Reshape", {F({0}), Longs({kLongest, kLongest, 0})}, "0 values");
  add("Reshape", {F({2, 3}), Sample(D::kInt32, {2, 3})}, "shape must be a vector");
  add("Reshape", {F({1}), Make(D::kInt32, {300}, std::vector<double>(300, 1))}, "at most 254");
  add("ExpandDims", {F({2}), Int(2)}, "dim = 2 is not in [-2, 2)");
  add("ExpandDims", {F({2}), L(kShortest)}, "is not in [-2, 2)");
  add("ExpandDims", {F({2}), Ints({})}, "dim must be a scalar");
  add("Squeeze", {F({1, 2})}, "dimension of 1", {{"squeeze_dims", List{1}}});
  add("Squeeze", {F({1, 2})}, "squeeze_dims = -3 is not in [-2, 2)", {{"squeeze_dims", List{-3}}});
  add("Fill", {Ints({-1}), F({})}, "dims");
  add("Fill", {Longs({kLongest, kLongest}), F({})}, "dims");
  add("Fill", {Longs({kWide, 0, kWide}), F({})}, "dims");
  add("Fill", {Ints({2}), F({3})}, "value must be a scalar");
  add("Fill", {Sample(D::kInt32, {2, 2}), F({})}, "dims must be a vector");
  add("Fill", {Ints({2}), F({0})}, "value must be a scalar");
  add.OutOfMemory("Fill", {Longs({kLongest / 8}), F({})});
  add.OutOfMemory("Fill", {Longs({kLongest / 8}), Strings({}, {"x"})});
  add("Range", {Int(0), Int(5), Int(0)}, "delta != 0");
  add("Range", {Int(5), Int(0), Int(1)}, "start <= limit");
  add("Range", {Int(0), Int(5), Int(-1)}, "start >= limit");
  add("Range", {L(kShortest), L(kLongest), L(1)}, "cannot be represented");
  add("Range", {Float(0), Float(1e30), Float(1)}, "represented");
  add("Range", {Float(0), Float(std::nan("")), Float(1)}, "represented");
  add("Range", {Ints({0, 1}), Int(5), Int(1)}, "each must be a scalar");
  add.OutOfMemory("Range", {L(0), L(kLongest / 2), L(1)});
  add("InvertPermutation", {Ints({0, 2})}, "x[1] = 2 is not in [0, 2)");
  add("InvertPermutation", {Ints({0, -1})}, "x[1] = -1");
  add("InvertPermutation", {Ints({1, 1})}, "duplicated");
  add("InvertPermutation", {Sample(D::kInt32, {2, 2})}, "x must be a vector");
  add("BroadcastGradientArgs", {Ints({2, 3}), Ints({4})}, "Incompatible shapes");
  add("BroadcastGradientArgs", {Sample(D::kInt32, {2, 3}), Ints({4})}, "s0 must be a vector");
  add("Placeholder", {}, "You must feed a value", {{"dtype", D::kFloat32}});
}

void AddJoins(Table& add) {
  using Tensors = std::vector<Tensor>;
  add("ConcatV2", {Tensors{F({2, 3}), F({3, 3})}, Int(1)}, "values[1] is [3,3]");
  add("ConcatV2", {Tensors{F({2, 3}), F({2})}, Int(0)}, "values[1] is [2]");
  add("ConcatV2", {Tensors{F({2, 3}), F({2, 3})}, Int(2)}, "axis = 2 is not in [-2, 2)");
  add("ConcatV2", {Tensors{F({}), F({})}, Int(0)}, "axis = 0 is not in [0, 0)");
  add("ConcatV2", {Tensors{F({2}), F({2})}, Ints({0, 0})}, "axis must be a scalar");
  add("ConcatV2", {Tensors{Empty({kLongest, 0}), Empty({kLongest, 0}), Empty({3, 0})}, Int(0)},
      "dimension 0");
  add("ConcatOffset", {Int(0), Tensors{Longs({kLongest}), Longs({kLongest}), Longs({1})}}, "shape[1]");
  add("ConcatOffset", {Int(0), Tensors{Ints({kHuge}), Ints({kHuge}), Ints({1})}}, "does not fit in int32");
  add("ConcatOffset", {Int(0), Tensors{Ints({-1}), Ints({1})}}, "shape[0]");
  add("ConcatOffset", {Int(0), Tensors{Ints({2, 3}), Ints({2, 4})}}, "may differ in dimension 0 only");
  add("ConcatOffset", {Int(0), Tensors{Ints({2, 3}), Ints({2})}}, "shape[1]");
  add("ConcatOffset", {Int(2), Tensors{Ints({2, 3}), Ints({2, 3})}}, "concat_dim = 2 is not in [-2, 2)");
  add("Split", {Int(0), F({3})}, "evenly divide", {{"num_split", 2}});
  add("Split", {Int(-3), F({2, 2})}, "split_dim = -3 is not in [-2, 2)", {{"num_split", 2}});
  add("Split", {Int(0), F({})}, "split_dim = 0 is not in [0, 0)", {{"num_split", 1}});
  add("Pack", {Tensors{F({2}), F({2})}}, "axis = 3 is not in [-2, 2)", {{"axis", 3}});
  add("Pack", {Tensors{F({2}), F({3})}}, "values[1]");
  add("Pack", {Tensors{Empty({kLongest, 0}), Empty({kLongest, 0})}}, "no shape has the dimensions");
  add("Unpack", {F({2, 2})}, "num = 3", {{"num", 3}});
  add("Unpack", {F({2, 2})}, "axis = 2 is not in [-2, 2)", {{"num", 2}, {"axis", 2}});
  add("Unpack", {F({})}, "axis = 0 is not in [0, 0)", {{"num", 0}});
}

void AddSlices(Table& add) {
  add("Slice", {F({2, 3}), Ints({0, 4}), Ints({1, 0})}, "begin[1] = 4 is not in [0, 3]");
  add("Slice", {F({2, 3}), Ints({-1, 0}), Ints({1, 0})}, "begin[0] = -1");
  add("Slice", {F({2, 3}), Ints({1, 1}), Ints({1, 3})}, "size[1] = 3 is not in [0, 2]");
  add("Slice", {F({2, 3}), Ints({1, 1}), Ints({1, -2})}, "size[1] = -2 is not in [0, 2]");
  add("Slice", {F({2, 3}), Longs({1, 1}), Longs({1, kLongest})}, "size[1]");
  add("Slice", {F({2, 3}), Longs({1, 1}), Longs({1, kShortest})}, "size[1]");
  add("Slice", {F({2, 3}), Longs({1, kLongest}), Longs({1, -1})}, "begin[1]");
  add("Slice", {F({2, 3}), Ints({0}), Ints({1, 1})}, "begin must have one element per dimension");
  add("Slice", {F({2, 3}), Ints({0, 0}), Ints({1, 1, 1})}, "size must have one element per dimension");
  const auto cut = [](List begin, List end, List strides) {
    return std::vector<CaseInput>{F({3}), Longs(begin), Longs(end), Longs(strides)};
  };
  add("StridedSlice", cut({0}, {3}, {0}), "strides[0] must be non-zero");
  add("StridedSlice", cut({3}, {4}, {1}), "slice index 3 of dimension 0", {{"shrink_axis_mask", 1}});
  add("StridedSlice", cut({kShortest}, {0}, {1}), "out of bounds", {{"shrink_axis_mask", 1}});
  add("StridedSlice", cut({0}, {1}, {kShortest}), "only stride 1 allowed", {{"shrink_axis_mask", 1}});
  add("StridedSlice", cut({0, 0}, {1, 1}, {1, 1}), "more ranges");
  add("StridedSlice", cut({0, 0}, {1, 1}, {1, 1}), "Multiple ellipses", {{"ellipsis_mask", 3}});
  add("StridedSlice", cut({0}, {1, 1}, {1}), "one length");
  add("StridedSlice", cut(List(40, 0), List(40, 1), List(40, 1)), "at most 32",
      {{"new_axis_mask", kLongest}});
  add("StridedSliceGrad", {Ints({4}), Ints({0}), Ints({2}), Ints({1}), F({3})},
      "shape of dy was [3] instead of [2]");
  add("StridedSliceGrad", {Longs({kLongest, 9}), Longs({0}), Longs({1}), Longs({1}), F({1, 9})}, "shape");
  add("StridedSliceGrad", {Longs({-1}), Longs({0}), Longs({1}), Longs({1}), F({1})}, "shape");
  add("StridedSliceGrad", {Ints({4}), Ints({0}), Ints({2}), Ints({0}), F({2})},
      "strides[0] must be non-zero");
  add.OutOfMemory("StridedSliceGrad", {Longs({kWide}), Longs({0}), Longs({2}), Longs({1}), F({2})});
}

void AddLayouts(Table& add) {
  add("Transpose", {F({2, 3}), Ints({0, 0})}, "permutation");
  add("Transpose", {F({2, 3}), Ints({0, 2})}, "perm[1] = 2 is not in [-2, 2)");
  add("Transpose", {F({2, 3}), Longs({0, kShortest})}, "perm[1]");
  add("Transpose", {F({2, 3}), Ints({0})}, "perm must have one element per dimension");
  add("Tile", {F({2}), Ints({-1})}, "multiples[0] = -1");
  add("Tile", {F({2}), Ints({1, 1})}, "multiples must have one element per dimension");
  add("Tile", {F({2, 2}), Longs({kLongest, kLongest})}, "multiples[0]");
  add("Tile", {F({1, 1}), Longs({kLongest / 2, 3})}, "no shape has the dimensions");
  add("Tile", {F({1, 0, 1}), Longs({kLongest / 2, 1, 3})}, "no shape has the dimensions");
  add.OutOfMemory("Tile", {F({2, 2}), Longs({kWide, 1})});
  add("BroadcastTo", {F({3}), Ints({2})}, "[3] does not broadcast to [2]");
  add("BroadcastTo", {F({3}), Ints({0})}, "[3] does not broadcast to [0]");
  add("BroadcastTo", {F({2, 2}), Ints({2})}, "does not broadcast");
  add("BroadcastTo", {F({1}), Longs({kLongest, 4})}, "shape");
  add("BroadcastTo", {F({1}), Longs({-1})}, "shape");
  add.OutOfMemory("BroadcastTo", {F({1}), Longs({kWide})});
  add("Pad", {F({2}), Matrix({-1, 0})}, "paddings[0] = (-1, 0)");
  add("Pad", {F({2}), Matrix({0, kShortest})}, "paddings[0]");
  add("Pad", {F({2}), Matrix({kLongest, kLongest})}, "paddings[0]");
  add("Pad", {F({2}), Matrix({kLongest - 2, 1})}, "paddings[0]");
  add("Pad", {F({2}), Matrix({0, 0, 0, 0})}, "paddings must be [1,2]");
  add("Pad", {F({2}), Longs({0, 0})}, "paddings must be [1,2]");
  add("Pad", {F({1, 1}), Matrix({kWide, 0, 0, kWide})}, "no shape has the dimensions");
  add.OutOfMemory("Pad", {F({1}), Matrix({kWide, 0})});
  add("Select", {Bools({3}, {1, 0, 1}), F({2}), F({2})}, "condition");
  add("Select", {Bools({2}, {1, 0}), F({2}), F({3})}, "[2] and [3]");
  add("Select", {Bools({2}, {1, 0}), F({}), F({})}, "condition");
  add("Select", {Bools({2, 1}, {1, 0}), F({2, 2}), F({2, 2})}, "condition");
  add("Select", {Bools({0}, {}), F({2}), F({2})}, "condition");
  add("SelectV2", {Bools({2}, {1, 0}), F({3}), F({})}, "Incompatible shapes: [2] vs. [3] vs. []");
  add("SelectV2", {Bools({0}, {}), F({3}), F({})}, "Incompatible shapes: [0] vs. [3] vs. []");
}

void AddLookUps(Table& add) {
  add("GatherV2", {F({2, 3}), Make(D::kInt32, {2, 2}, {0, 1, 1, 7}), Int(0)},
      "indices[1,1] = 7 is not in [0, 2)");
  add("GatherV2", {F({2, 3}), Int(-1), Int(0)}, "indices = -1 is not in [0, 2)");
  add("GatherV2", {F({2, 3}), L(kShortest), Int(1)}, "is not in [0, 3)");
  add("GatherV2", {F({2, 3}), Ints({0}), Int(2)}, "axis = 2 is not in [-2, 2)");
  add("GatherV2", {F({0, 3}), Ints({0}), Int(0)}, "indices[0] = 0 is not in [0, 0)");
  add("GatherV2", {F({}), Ints({0}), Int(0)}, "params must be at least 1 dimensional");
  add("GatherV2", {F({2, 3}), Ints({0}), Int(1)}, "batch_dims", {{"batch_dims", 2}});
  add("GatherV2", {F({2, 3}), Ints({0}), Int(1)}, "batch_dims", {{"batch_dims", -3}});
  add("GatherV2", {F({2, 3}), Make(D::kInt32, {2, 1}, {0, 0}), Int(0)}, "batch_dims", {{"batch_dims", 1}});
  add("GatherV2", {F({2, 3}), Make(D::kInt32, {3, 1}, {0, 0, 0}), Int(1)}, "params.shape[0] = 2",
      {{"batch_dims", 1}});
  add("GatherV2", {Empty({3, 0, kWide}), Empty({kWide, 0}, D::kInt32), Int(0)},
      "no shape has the dimensions");
  add.OutOfMemory("GatherV2", {Tensor(D::kBool, {1, 1 << 20}),
                               Make(D::kInt32, {1 << 10}, std::vector<double>(1 << 10)), Int(0)});
  add("OneHot", {Longs({1}), Int(-1), F({}), F({})}, "depth");
  add("OneHot", {Longs({1}), Int(2), F({2}), F({})}, "on_value");
  add("OneHot", {Longs({1}), Int(2), F({}), F({0})}, "off_value");
  add("OneHot", {Longs({1}), Ints({1, 2}), F({}), F({})}, "depth must be a scalar");
  add("OneHot", {Longs({1}), Int(2), F({}), F({})}, "axis = 2 is not in [-2, 2)", {{"axis", 2}});
  add("OneHot", {Empty({kLongest, 0}, D::kInt64), Int(2), F({}), F({})}, "no shape has the dimensions");
  add.OutOfMemory("OneHot", {Sample(D::kInt64, {4000}), Int(kHuge), F({}), F({})});
}

AttrMap Window(List strides, const char* padding, List paddings = {}) {
  AttrMap attrs = {{"strides", std::move(strides)}, {"padding", padding}};
  if (!paddings.empty()) attrs["explicit_paddings"] = std::move(paddings);
  return attrs;
}
AttrMap With(AttrMap attrs, const std::string& name, List value) {
  attrs[name] = std::move(value);
  return attrs;
}

void AddConvolutions(Table& add) {
  const AttrMap valid = Window({1, 1, 1, 1}, "VALID"), same = Window({1, 1, 1, 1}, "SAME");
  add("Conv2D", {F({1, 2, 2, 1}), F({3, 3, 1, 1})}, "does not fit into 2", valid);
  add("Conv2D", {F({1, 4, 4, 3}), F({3, 3, 2, 1})}, "channels do not fit", same);
  add("Conv2D", {F({1, 4, 4, 4}), F({3, 3, 2, 3})}, "channels do not fit", same);
  add("Conv2D", {F({1, 4, 4, 4}), F({3, 3, 0, 3})}, "channels do not fit", same);
  add("Conv2D", {F({1, 4, 4}), F({3, 3, 3, 3})}, "4 dimensions", same);
  add("Conv2D", {F({1, 4, 4, 3}), F({3, 3, 3})}, "4 dimensions", same);
  add("Conv2D", {F({1, 4, 4, 3}), F({0, 3, 3, 2})}, "no window has size 0", same);
  add("Conv2D", {F({1, 4, 4, 1}), F({1, 1, 1, 1})}, "does not fit into 64 bits",
      Window({1, 1, 1, 1}, "EXPLICIT", {0, 0, kLongest, kLongest, 0, 0, 0, 0}));
  add("Conv2D", {F({1, 4, 4, 1}), F({1, 1, 1, 1})}, "no shape has the dimensions",
      Window({1, 1, 1, 1}, "EXPLICIT", {0, 0, kWide, 0, 0, kWide, 0, 0}));
  add("Conv2D", {F({1, 4, 4, 1}), F({1, 1, 1, 1})}, "padding must be at least 0",
      Window({1, 1, 1, 1}, "EXPLICIT", {0, 0, kShortest, 0, 0, 0, 0, 0}));
  add("Conv2D", {F({1, 4, 4, 1}), F({3, 3, 1, 1})}, "no window has size 3",
      With(same, "dilations", {1, kLongest, 1, 1}));
  add("Conv2D", {Empty({1, kWide / 2, kWide / (1 << 20), 0}), Empty({1, 1, 0, 1 << 10})},
      "no shape has the dimensions", valid);
  add.OutOfMemory("Conv2D", {Empty({1, 1 << 20, 1 << 20, 0}), Empty({1, 1, 0, 1})}, valid);
  add.OutOfMemory("Conv2D", {F({1, 1, 1, 1}), F({1, 1, 1, 1})},
                  Window({1, 1, 1, 1}, "EXPLICIT", {0, 0, kWide, 0, 0, 0, 0, 0}));

  const Tensor filter = F({3, 3, 1, 1});
  add("Conv2DBackpropInput", {Ints({1, 4, 4, 1}), filter, F({1, 4, 4, 2})}, "out_backprop must be [1,4,4,1]",
      same);
  add("Conv2DBackpropInput", {Ints({1, 4, 4}), filter, F({1, 4, 4, 1})}, "input_sizes must have 4 elements",
      same);
  add("Conv2DBackpropInput", {Ints({1, -4, 4, 1}), filter, F({1, 4, 4, 1})}, "input_sizes", same);
  add("Conv2DBackpropInput", {Ints({kHuge, kHuge, kHuge, kHuge}), filter, F({1, 4, 4, 1})}, "input_sizes",
      same);
  add("Conv2DBackpropInput", {Ints({1, 2, 2, 1}), filter, F({1, 4, 4, 1})}, "does not fit", valid);
  add("Conv2DBackpropInput", {Ints({1, kHuge, kHuge, 1}), F({1, 1, 1, 4}), F({1, 4, 4, 1})},
      "no shape has the dimensions", same);
  add("Conv2DBackpropInput", {Ints({1, 4, 4, 1}), F({3, 3, 1}), F({1, 4, 4, 1})}, "4 dimensions", same);
  const Tensor image = F({1, 4, 4, 1});
  add("Conv2DBackpropFilter", {image, Ints({3, 3, 1, 1}), F({1, 4, 4, 2})}, "out_backprop must be [1,4,4,1]",
      same);
  add("Conv2DBackpropFilter", {image, Ints({3, 3, 1}), F({1, 4, 4, 1})}, "filter_sizes must have 4 elements",
      same);
  add("Conv2DBackpropFilter", {image, Ints({3, -3, 1, 1}), F({1, 4, 4, 1})}, "filter_sizes", same);
  add("Conv2DBackpropFilter", {image, Ints({0, 3, 1, 1}), F({1, 4, 4, 1})}, "no window has size 0", same);
  add("Conv2DBackpropFilter", {image, Ints({kHuge, kHuge, 1, 1}), F({1, 4, 4, 1})}, "does not fit", valid);
  add("Conv2DBackpropFilter", {image, Ints({3, 3, 2, 1}), F({1, 4, 4, 1})}, "channels do not fit", same);
  add.OutOfMemory("Conv2DBackpropFilter", {image, Ints({kHuge, 1, 1, 1}), F({1, 4, 4, 1})}, same);
}

void AddPools(Table& add) {
  const auto pool = [](List size, const char* padding) {
    return With(Window({1, 1, 1, 1}, padding), "ksize", size);
  };
  const AttrMap two = pool({1, 2, 2, 1}, "VALID");
  for (const char* op : {"MaxPool", "AvgPool"}) {
    add(op, {F({1, 2, 2, 1})}, "does not fit into 2", pool({1, 3, 3, 1}, "VALID"));
    add(op, {F({2, 2, 1})}, "4 dimensions", two);
    add(op, {F({1, 0, 2, 1})}, "does not fit into 0", two);
    add(op, {F({1, 4, 4, 1})}, "does not fit into 64 bits",
        With(pool({1, kLongest, 1, 1}, "SAME"), "strides", {1, 3, 1, 1}));
  }
  add("MaxPool", {F({1, 2, 2, 1})}, "does not fit into 64 bits",
      With(pool({1, 2, 2, 1}, "EXPLICIT"), "explicit_paddings", {0, 0, kLongest, 1, 0, 0, 0, 0}));
  add("MaxPool", {F({1, 2, 2, 1})}, "no shape has the dimensions",
      With(pool({1, 2, 2, 1}, "EXPLICIT"), "explicit_paddings", {0, 0, kWide, 0, kWide, 0, 0, 0}));
  const Tensor image = F({1, 4, 4, 1});
  add("MaxPoolGrad", {image, F({1, 3, 2, 1}), F({1, 3, 3, 1})}, "orig_output must be [1,3,3,1]", two);
  add("MaxPoolGrad", {image, F({1, 3, 3, 1}), F({1, 3, 3, 2})}, "grad must be [1,3,3,1]", two);
  add("MaxPoolGrad", {F({1, 1, 1, 1}), F({1, 3, 3, 1}), F({1, 3, 3, 1})}, "does not fit into 1", two);
  add("MaxPoolGrad", {F({4}), F({4}), F({4})}, "4 dimensions", two);
  add("AvgPoolGrad", {Ints({1, 4, 4, 1}), F({1, 3, 2, 1})}, "grad must be [1,3,3,1]", two);
  add("AvgPoolGrad", {Ints({1, 4, 4}), F({1, 3, 3, 1})}, "orig_input_shape must be [4]", two);
  add("AvgPoolGrad", {Ints({1, -4, 4, 1}), F({1, 3, 3, 1})}, "orig_input_shape", two);
  add("AvgPoolGrad", {Ints({1, kHuge, kHuge, 1}), F({1, 3, 3, 1})}, "grad must be", two);
}

void AddNn(Table& add) {
  add("ReluGrad", {F({2, 3}), F({3, 2})}, "gradients is [2,3] but features is [3,2]");
  add("BiasAdd", {F({2, 3}), F({2})}, "the bias must be [3]");
  add("BiasAdd", {F({2, 3}), F({3, 1})}, "the bias must be [3]");
  add("BiasAdd", {F({3}), F({3})}, "a batch and a channel dimension");
  add("BiasAddGrad", {F({3})}, "a batch and a channel dimension");
  add.OutOfMemory("BiasAddGrad", {Empty({0, kWide})});
  for (const char* op : {"Softmax", "LogSoftmax"}) add(op, {F({})}, "class dimension");
  for (const char* op : {"SoftmaxCrossEntropyWithLogits"}) {
    add(op, {F({2, 3}), F({3, 2})}, "logits is [2,3] but labels is [3,2]");
    add(op, {F({2, 3}), F({3})}, "must be matrices");
    add(op, {F({6}), F({6})}, "must be matrices");
  }
  const char* sparse = "SparseSoftmaxCrossEntropyWithLogits";
  add(sparse, {F({2, 3}), Ints({0, 3})}, "label 3 of example 1 is outside [0,3)");
  add(sparse, {F({2, 3}), Longs({kShortest, 0})}, "of example 0 is outside [0,3)");
  add(sparse, {F({2, 3}), Ints({0})}, "logits must be [batch,classes]");
  add(sparse, {F({2, 3}), Make(D::kInt32, {2, 1}, {0, 0})}, "logits must be [batch,classes]");
  add(sparse, {F({2, 0}), Ints({0, 0})}, "is outside [0,0)");
  add("InTopKV2", {F({2, 3}), Ints({0, 1, 2}), Int(1)}, "targets is [3]");
  add("InTopKV2", {F({6}), Ints({0}), Int(1)}, "predictions must be [batch,classes]");
  add("InTopKV2", {F({2, 3}), Ints({0, 1}), Ints({})}, "k must be a scalar");
}

void AddState(Table& add) {
  const auto failed = absl::StatusCode::kFailedPrecondition, missing = absl::StatusCode::kNotFound;
  const AttrMap as_float = {{"dtype", D::kFloat32}};
  const Tensor weights = HandleOf(F({2}));
  const auto add_for_all_handles = [&](const std::string& op, std::vector<CaseInput> others,
                                       const AttrMap& attrs = {}) {
    const auto with = [&](const Tensor& handle) {
      std::vector<CaseInput> inputs = {handle};
      inputs.insert(inputs.end(), others.begin(), others.end());
      return inputs;
    };
    add(op, with(MissingHandle()), "weights", attrs, missing);
    add(op, with(UninitializedHandle(D::kFloat32)), "variable 'weights' is not initialized", attrs, failed);
    add(op, with(NoHandles()), "must be one resource handle", attrs);
  };
  add("VarHandleOp", {}, "variable 'taken' holds float, asked for as int32",
      {{"shared_name", kHostileVariable}, {"dtype", D::kInt32}, {"shape", PartialShape({2})}});
  add_for_all_handles("ReadVariableOp", {}, as_float);
  add("ReadVariableOp", {weights}, "holds float, asked for as int32", {{"dtype", D::kInt32}});
  add("AssignVariableOp", {MissingHandle(), F({2})}, "weights", {}, missing);
  add("AssignVariableOp", {NoHandles(), F({2})}, "must be one resource handle");
  add("AssignVariableOp", {weights, Ints({1, 2})}, "holds float, asked for as int32");
  add("AssignVariableOp", {weights, F({3})}, "has the shape [2]", {{"validate_shape", true}});
  for (const char* op : {"AssignAddVariableOp", "AssignSubVariableOp"}) {
    add_for_all_handles(op, {F({2})});
    add(op, {weights, F({3})}, "the value is float[3] but variable 'weights' is float[2]");
    add(op, {weights, F({})}, "the value is float[] but variable 'weights' is float[2]");
    add(op, {weights, Ints({1, 2})}, "the value is int32[2] but variable 'weights' is float[2]");
  }
  add("VarIsInitializedOp", {NoHandles()}, "must be one resource handle");
  add("DestroyResourceOp", {NoHandles()}, "must be one resource handle");
  add("DestroyResourceOp", {NoHandles()}, "must be one resource handle", {{"ignore_lookup_error", true}});
  add("DestroyResourceOp", {MissingHandle()}, "weights", {{"ignore_lookup_error", false}}, missing);
  add("DestroyResourceOp", {UninitializedHandle(D::kFloat32)}, "weights", {{"ignore_lookup_error", false}},
      missing);
}

void AddFilesAndChecks(Table& add) {
  using Tensors = std::vector<Tensor>;
  const Tensor prefix = Strings({}, {"/does/not/exist/model"});
  const AttrMap one_float = {{"dtypes", std::vector<DType>{D::kFloat32}}};
  add("SaveV2", {Words({"a", "b"}), Words({"w"}), Words({""}), Tensors{F({2})}}, "prefix must be one string");
  add("SaveV2", {prefix, Words({"w", "x"}), Words({""}), Tensors{F({2})}}, "tensor_names must be [1]");
  add("SaveV2", {prefix, Words({"w"}), Words({}), Tensors{F({2})}}, "shape_and_slices must be [1]");
  add("RestoreV2", {Words({}), Words({"w"}), Words({""})}, "prefix must be one string", one_float);
  add("RestoreV2", {prefix, Words({}), Words({""})}, "tensor_names must be [1]", one_float);
  add("RestoreV2", {prefix, Words({"w"}), Words({"", ""})}, "shape_and_slices must be [1]", one_float);
  add("RestoreV2", {prefix, Words({"w"}), Words({""})}, "/does/not/exist", one_float,
      absl::StatusCode::kNotFound);
  add("ScalarSummary", {Words({"a"}), F({2})}, "tags is [1] but values is [2]");
  add("ScalarSummary", {Words({"a", "a"}), F({2})}, "two summaries to merge have the tag 'a'");
  add("HistogramSummary", {Words({"a", "b"}), F({2})}, "tag must be one string");
  add("HistogramSummary", {Strings({}, {"a"}), Make(D::kFloat32, {2}, {1, std::nan("")})}, "NaN");
  add("MergeSummary", {Tensors{Strings({}, {"\xff\xff"})}}, "summary 0 of those to merge does not parse");
  add("CheckNumerics", {Make(D::kFloat32, {2}, {1, std::nan("")})}, "the loss", {{"message", "the loss"}});
  add("CheckNumerics", {Make(D::kFloat64, {2}, {1, INFINITY})}, "Inf", {{"message", "the loss"}});
  add("Assert", {Tensor::Scalar(false), Tensors{Ints({42})}}, "42");
  add("Assert", {Bools({2}, {1, 1}), Tensors{Ints({42})}}, "condition must be a scalar");
  add("Assert", {Bools({0}, {}), Tensors{Ints({42})}}, "condition must be a scalar");
}

}  // namespace

std::vector<HostileCase> HostileCases() {
  Table table;
  for (auto* add : {AddElementwise, AddReductions, AddShapes, AddJoins, AddSlices, AddLayouts, AddLookUps,
                    AddConvolutions, AddPools, AddNn, AddState, AddFilesAndChecks}) {
    add(table);
  }
  return std::move(table.cases);
}

const std::vector<std::string>& OpsThatCannotFail() {
  // clang-format off
  static const auto* const ops = new std::vector<std::string>{
      "Abs", "Cast", "Const", "Exp", "Floor", "Identity", "IdentityN", "IsFinite", "IsNan", "L2Loss", "Log", "Log1p",
      "LogicalNot", "Neg", "NoOp", "OnesLike", "PlaceholderWithDefault", "Rank", "Relu", "Rsqrt", "Sigmoid", "Sign",
      "Size",  // but for 2^31 elements and an answer in int32
      "Sqrt", "Square", "StopGradient", "Tanh", "Where", "ZerosLike"};
  // clang-format on
  return *ops;
}

// Ops that cannot be a case: they need a step, state or files, or give other numbers each time.
const std::map<std::string, std::string>& OpsWithoutCase() {
  static const auto* const excuses = new std::map<std::string, std::string>{
      {"Placeholder", "an error unless fed: session/session_test"},
      {"VarHandleOp", "state: tests/conformance/state/variables_test.cc"},
      {"ReadVariableOp", "state: tests/conformance/state/variables_test.cc"},
      {"AssignVariableOp", "state: tests/conformance/state/variables_test.cc"},
      {"AssignAddVariableOp", "state: tests/conformance/state/variables_test.cc"},
      {"AssignSubVariableOp", "state: tests/conformance/state/variables_test.cc"},
      {"VarIsInitializedOp", "state: tests/conformance/state/variables_test.cc"},
      {"DestroyResourceOp", "state: tests/conformance/state/variables_test.cc"},
      {"SaveV2", "files: tests/conformance/io/files_and_checks_test.cc"},
      {"RestoreV2", "files: tests/conformance/io/files_and_checks_test.cc"},
      {"ScalarSummary", "serialized protocol messages: tests/conformance/io/files_and_checks_test.cc"},
      {"HistogramSummary", "serialized protocol messages: tests/conformance/io/files_and_checks_test.cc"},
      {"MergeSummary", "serialized protocol messages: tests/conformance/io/files_and_checks_test.cc"},
  };
  return *excuses;
}

std::vector<MissingKernel> MissingKernels() {
  const std::vector<DType> complex = {DType::kComplex64, DType::kComplex128};
  const std::vector<DType> integers = {DType::kInt32, DType::kInt64,  DType::kInt8,   DType::kUint8,
                                       DType::kInt16, DType::kUint16, DType::kUint32, DType::kUint64};
  const char* const not_in_tensorflow = "TensorFlow has none either";
  std::vector<MissingKernel> missing = {
      {"Cast", "SrcT", {DType::kString}, "numbers are read from text by StringToNumber"},
      {"Cast", "DstT", {DType::kString}, "numbers are written as text by AsString"},
      {"RealDiv", "T", integers, not_in_tensorflow},
      {"FloorDiv", "T", complex, not_in_tensorflow},
      {"AssignAddVariableOp", "dtype", {DType::kBool, DType::kString}, not_in_tensorflow},
      {"AssignSubVariableOp", "dtype", {DType::kBool, DType::kString}, not_in_tensorflow},
  };
  return missing;
}

}  // namespace weir::conformance
