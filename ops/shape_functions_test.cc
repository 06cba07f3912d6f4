// Shape functions, as a table of strings; for every case that differentiates, also that the gradients of the
// inputs have the inputs' shapes.
//
// Inputs are separated by ';': "[2,?]" float, "int32[2]" of a dtype, "?" unknown rank, "=3" or "={1,2}" or
// "={1,2|3,4}" an int32 constant of rank 0, 1 or 2, "([2] [3])" a list. Several outputs are separated by ';'
// too.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

PartialShape ParseShape(absl::string_view text) {
  if (text == "?") return {};
  std::vector<int64_t> dims;
  for (const absl::string_view part :
       absl::StrSplit(text.substr(1, text.size() - 2), ',', absl::SkipEmpty())) {
    int64_t dim = -1;
    EXPECT_TRUE(part == "?" || absl::SimpleAtoi(part, &dim)) << text;
    dims.push_back(dim);
  }
  return *PartialShape::FromDims(dims);
}

Tensor ParseConstant(absl::string_view text) {
  const bool is_scalar = text[0] != '{';
  if (!is_scalar) text = text.substr(1, text.size() - 2);
  std::vector<int32_t> values;
  const std::vector<std::string> rows = absl::StrSplit(text, '|');
  for (const std::string& row : rows) {
    for (const absl::string_view part : absl::StrSplit(row, ',', absl::SkipEmpty())) {
      int32_t value = 0;
      EXPECT_TRUE(absl::SimpleAtoi(part, &value)) << text;
      values.push_back(value);
    }
  }
  const int64_t count = static_cast<int64_t>(values.size()), num_rows = static_cast<int64_t>(rows.size());
  Shape shape;
  if (!is_scalar) shape = num_rows > 1 ? Shape({num_rows, count / num_rows}) : Shape({count});
  return Tensor::FromSpan<int32_t>(shape, values);
}

Output AddInput(GraphBuilder& g, absl::string_view text) {
  if (absl::ConsumePrefix(&text, "=")) {
    const Tensor value = ParseConstant(text);
    return g.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}});
  }
  const size_t type_end = text.find_first_of("[?");
  const absl::string_view type = text.substr(0, type_end);
  const DType dtype = type.empty() ? DType::kFloat32 : *ParseDType(type);
  return g.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", ParseShape(text.substr(type_end))}});
}

InputArg ParseInput(GraphBuilder& g, absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "(")) return AddInput(g, text);
  std::vector<Output> list;
  for (const absl::string_view part :
       absl::StrSplit(text.substr(0, text.size() - 1), ' ', absl::SkipEmpty())) {
    list.push_back(AddInput(g, part));
  }
  return list;
}

std::vector<InputArg> ParseInputs(GraphBuilder& g, absl::string_view text) {
  std::vector<InputArg> inputs;
  for (const absl::string_view part : absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    inputs.push_back(ParseInput(g, absl::StripAsciiWhitespace(part)));
  }
  return inputs;
}

void ExpectGradientsOfInputShape(GraphBuilder& g, Node& node) {
  std::vector<Output> xs;
  for (const Output& input : node.inputs()) {
    if (input.node->op_name() == "Placeholder" && IsFloating(input.dtype())) xs.push_back(input);
  }
  std::vector<Output> ys;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (IsFloating(node.output_type(i))) ys.push_back(node.output(i));
  }
  if (xs.empty() || ys.empty()) return;
  const auto gradients = AddGradients(g, ys, xs);
  if (gradients.status().code() == absl::StatusCode::kUnimplemented) return;
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (size_t i = 0; i < xs.size(); ++i) {
    const Output gradient = (*gradients)[i];
    if (!gradient) continue;
    EXPECT_TRUE(gradient.shape().IsCompatibleWith(xs[i].shape()))
        << "gradient " << gradient.shape() << " of input " << xs[i].shape();
    EXPECT_EQ(gradient.dtype(), xs[i].dtype());
  }
}

struct Case {
  const char* op;
  const char* inputs;
  const char* expected;  // output shapes, or "error: " and a part of the message
  AttrMap attrs = {};
};

void Check(const Case& c) {
  SCOPED_TRACE(absl::StrCat(c.op, " ", c.inputs));
  GraphBuilder g(StandardOps());
  std::vector<InputArg> inputs = ParseInputs(g, c.inputs);
  ASSERT_TRUE(g.ok()) << g.status();
  Node* const node = g.AddNode(c.op, std::move(inputs), c.attrs);
  absl::string_view expected = c.expected;
  if (absl::ConsumePrefix(&expected, "error: ")) {
    ASSERT_EQ(node, nullptr) << "was accepted";
    EXPECT_EQ(g.status().code(), absl::StatusCode::kInvalidArgument) << g.status();
    EXPECT_TRUE(absl::StrContains(g.status().message(), expected)) << g.status();
    EXPECT_TRUE(absl::StrContains(g.status().message(), "shape_functions_test.cc")) << g.status();
    return;
  }
  ASSERT_NE(node, nullptr) << g.status();
  std::vector<std::string> shapes;
  for (int i = 0; i < node->num_outputs(); ++i) shapes.push_back(node->output_shape(i).ToString());
  EXPECT_EQ(absl::StrJoin(shapes, ";"), expected);
  ExpectGradientsOfInputShape(g, *node);
}

void CheckAll(const std::vector<Case>& cases) {
  for (const Case& c : cases) Check(c);
}

using Ints = std::vector<int64_t>;

TEST(ShapeFunctionsTest, Making) {
  CheckAll({
      {"Placeholder", "", "[?,784]", {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1, 784})}}},
      {"Const", "", "[2]", {{"dtype", DType::kFloat32}, {"value", Tensor::Vector<float>({1, 2})}}},
      {"Const",
       "",
       "error: attr dtype is int32, the value is float[2]",
       {{"dtype", DType::kInt32}, {"value", Tensor::Vector<float>({1, 2})}}},
      {"PlaceholderWithDefault", "[2,3]", "[?,3]", {{"shape", PartialShape({-1, 3})}}},
      {"PlaceholderWithDefault",
       "[2,3]",
       "error: input is [2,3], shape is [?,4]",
       {{"shape", PartialShape({-1, 4})}}},
      {"Fill", "={2,3}; []", "[2,3]"},
      {"Fill", "int32[2]; []", "[?,?]"},
      {"Fill", "int32[?]; []", "?"},
      {"Fill", "={2,-3}; []", "error: dims has the negative dimension -3"},
      {"Fill", "={2,3}; [1]", "error: value must have rank 0, is [1]"},
      {"ZerosLike", "[?,3]", "[?,3]"},
      {"OnesLike", "?", "?"},
      {"Range", "=0; =10; =3", "[4]"},
      {"Range", "=10; =0; =-3", "[4]"},
      {"Range", "=0; int32[]; =1", "[?]"},
      {"Range", "=0; =10; =0", "error: delta must not be 0"},
      {"Range", "=0; =10; =-1", "error: does not reach limit 10"},
      {"Range", "={0}; =10; =1", "error: start must have rank 0, is [1]"},
      {"RandomUniform", "={2,3}", "[2,3]", {{"dtype", DType::kFloat32}}},
      {"TruncatedNormal", "int32[3]", "[?,?,?]", {{"dtype", DType::kFloat32}}},
      {"RandomStandardNormal", "=2", "error: shape must have rank 1, is []", {{"dtype", DType::kFloat32}}},
      {"RandomUniformInt", "={4}; =0; =9", "[4]"},
  });
}

TEST(ShapeFunctionsTest, PassingOnAndShapes) {
  CheckAll({
      {"Identity", "[?,3]", "[?,3]"},
      {"IdentityN", "([2] int32[3,?])", "[2];[3,?]"},
      {"StopGradient", "[2]", "[2]"},
      {"Shape", "[?,3]", "[2]"},
      {"Shape", "?", "[?]"},
      {"ShapeN", "([2] [3,4])", "[1];[2]"},
      {"Size", "[2,3]", "[]"},
      {"Rank", "?", "[]"},
      {"Cast", "[2,3]", "[2,3]", {{"DstT", DType::kFloat64}}},
      {"Cast", "[2,3]", "[2,3]", {{"DstT", DType::kInt32}}},
  });
}

TEST(ShapeFunctionsTest, Reshaping) {
  CheckAll({
      {"Reshape", "[4,6]; ={3,8}", "[3,8]"},
      {"Reshape", "[4,6]; ={3,-1}", "[3,8]"},
      {"Reshape", "[?,6]; ={-1,3}", "[?,3]"},
      {"Reshape", "[?,28,28]; ={-1,784}", "[?,784]"},
      {"Reshape", "[4,6]; int32[2]", "[?,?]"},
      {"Reshape", "[1]; ={}", "[]"},
      {"Reshape", "[0,4]; ={-1,0}", "[4,0]"},
      {"Reshape", "[0,28,28]; ={0,-1}", "[0,784]"},
      {"Reshape", "[?,28,28]; ={0,-1}", "[0,?]"},
      {"Reshape", "[2,3]; ={-1,0}", "error: element counts differ: tensor is [2,3], shape is [?,0]"},
      {"Reshape", "[3,5]; ={2,-1}", "error: element counts differ: tensor is [3,5], shape is [2,?]"},
      {"Reshape", "[3,5]; ={4,4}", "error: element counts differ: tensor is [3,5], shape is [4,4]"},
      {"Reshape", "[3,5]; ={-1,-1}", "error: shape may have one -1, is [-1,-1]"},
      {"Reshape", "[3,5]; =15", "error: shape must have rank 1, is []"},
      {"ExpandDims", "[2,3]; =0", "[1,2,3]"},
      {"ExpandDims", "[2,3]; =-1", "[2,3,1]"},
      {"ExpandDims", "[2,3]; int32[]", "[?,?,?]"},
      {"ExpandDims", "[2,3]; =3", "error: dim 3 is outside [-3,3)"},
      {"Squeeze", "[1,2,1,3]", "[2,3]"},
      {"Squeeze", "[1,2,1,3]", "[2,1,3]", {{"squeeze_dims", Ints{0}}}},
      {"Squeeze", "[?,2,1]", "?"},
      {"Squeeze", "[?,2,1]", "[2,1]", {{"squeeze_dims", Ints{-3}}}},
      {"Squeeze",
       "[2,3]",
       "error: cannot squeeze axis 1, which is not 1: input is [2,3]",
       {{"squeeze_dims", Ints{1}}}},
      {"Transpose", "[2,3,4]; ={2,0,1}", "[4,2,3]"},
      {"Transpose", "[2,3]; int32[2]", "[?,?]"},
      {"Transpose", "?; int32[3]", "[?,?,?]"},
      {"Transpose", "[2,3]; ={0,0}", "error: perm must list every axis of x once: x is [2,3], perm is [0,0]"},
      {"Transpose", "[2,3]; ={0,1,2}", "error: x is [2,3], perm is [3]"},
      {"InvertPermutation", "={1,0}", "[2]"},
  });
}

TEST(ShapeFunctionsTest, JoiningAndSplitting) {
  CheckAll({
      {"ConcatV2", "([2,3] [4,3]); =0", "[6,3]"},
      {"ConcatV2", "([2,3] [2,?]); =-1", "[2,?]"},
      {"ConcatV2", "([?,3] [4,?]); =0", "[?,3]"},
      {"ConcatV2", "([2,3] [2,3]); int32[]", "[?,?]"},
      {"ConcatV2", "([2,3] [4,5]); =0",
       "error: shapes differ outside axis 0: values[0] is [2,3], values[1] is [4,5]"},
      {"ConcatV2", "([2,3] [4,3]); =2", "error: axis 2 is outside [-2,2)"},
      {"ConcatOffset", "=0; (int32[2] int32[2])", "[2];[2]"},
      {"Split", "=1; [2,6]", "[2,3];[2,3]", {{"num_split", 2}}},
      {"Split", "int32[]; [2,6]", "[?,?];[?,?]", {{"num_split", 2}}},
      {"Split",
       "=1; [2,5]",
       "error: cannot split axis 1 of value [2,5] into 2 equal parts",
       {{"num_split", 2}}},
      {"Pack", "([2,?] [?,3])", "[2,2,3]"},
      {"Pack", "([2] [2] [2])", "[2,3]", {{"axis", -1}}},
      {"Pack", "([2] [3])", "error: shapes differ: values[0] is [2], values[1] is [3]"},
      {"Unpack", "[3,4]", "[4];[4];[4]", {{"num", 3}}},
      {"Unpack", "[3,?]", "[3];[3]", {{"num", 2}, {"axis", 1}}},
      {"Unpack", "[3,4]", "error: num is 2, but axis 0 of value [3,4] has length 3", {{"num", 2}}},
  });
}

TEST(ShapeFunctionsTest, Cutting) {
  CheckAll({
      {"Slice", "[4,6]; ={1,2}; ={2,-1}", "[2,4]"},
      {"Slice", "[?,6]; ={1,2}; ={-1,3}", "[?,3]"},
      {"Slice", "[4,6]; int32[2]; ={2,3}", "[2,3]"},
      {"Slice", "[4,6]; ={1,2}; ={4,1}", "error: slice of axis 0 leaves the input: input is [4,6]"},
      {"Slice", "[4,6]; ={1}; ={4}",
       "error: begin must have one element per axis: input is [4,6], begin is [1]"},
      {"StridedSlice", "[4,6]; ={1,0}; ={3,6}; ={1,2}", "[2,3]"},
      {"StridedSlice", "[4,6]; ={0}; ={2}; ={1}", "[2,6]"},
      {"StridedSlice", "[4,6]; ={-1}; ={0}; ={1}", "[6]", {{"shrink_axis_mask", 1}}},
      {"StridedSlice", "[4,6]; ={0}; ={0}; ={-1}", "[4,6]", {{"begin_mask", 1}, {"end_mask", 1}}},
      {"StridedSlice", "[4,6,7]; ={0,1}; ={0,2}; ={1,1}", "[4,6,1]", {{"ellipsis_mask", 1}}},
      {"StridedSlice",
       "[4,6]; ={0,0}; ={0,0}; ={1,1}",
       "[4,1,6]",
       {{"new_axis_mask", 2}, {"begin_mask", 1}, {"end_mask", 1}}},
      {"StridedSlice", "[?,6]; ={0}; ={2}; ={1}", "[?,6]"},
      {"StridedSlice", "[4,6]; int32[1]; int32[1]; ={1}", "[?,6]"},
      {"StridedSlice", "[4,6]; int32[1]; int32[1]; int32[1]", "?"},
      {"StridedSlice",
       "[4]; ={5}; ={6}; ={1}",
       "error: index 5 is outside axis 0: input is [4]",
       {{"shrink_axis_mask", 1}}},
      {"StridedSlice", "[4]; ={0,0}; ={1,1}; ={1,1}", "error: more indices than axes: input is [4]"},
      {"StridedSlice", "[4]; ={0}; ={1}; ={0}", "error: strides[0] is 0"},
      {"StridedSlice",
       "[4,6,7]; ={0,0}; ={1,1}; ={1,1}",
       "error: ellipsis_mask has more than one bit",
       {{"ellipsis_mask", 3}}},
      {"StridedSliceGrad", "={4,6}; ={1,0}; ={3,6}; ={1,2}; [2,3]", "[4,6]"},
      {"Pad", "[2,3]; ={1,1|0,2}", "[4,5]"},
      {"Pad", "[2,3]; int32[2,2]", "[?,?]"},
      {"Pad", "[2,3]; ={1,1}", "error: paddings must have rank 2, is [2]"},
      {"Pad", "[2]; ={1,1|0,2}", "error: paddings must be [rank,2]: input is [2], paddings is [2,2]"},
      {"Pad", "[2,3]; ={1,1|0,-2}", "error: paddings of axis 1 are negative"},
  });
}

TEST(ShapeFunctionsTest, Repeating) {
  CheckAll({
      {"Tile", "[2,3]; ={2,1}", "[4,3]"},
      {"Tile", "[2,?]; ={2,2}", "[4,?]"},
      {"Tile", "?; ={2,2}", "[?,?]"},
      {"Tile", "[2,3]; ={2}",
       "error: multiples must have one element per axis: input is [2,3], multiples is [1]"},
      {"BroadcastTo", "[3]; ={2,3}", "[2,3]"},
      {"BroadcastTo", "[?,1]; int32[2]", "[?,?]"},
      {"BroadcastTo", "[3]; ={2,4}", "error: cannot broadcast: input is [3], shape is [2,4]"},
      {"BroadcastTo", "[2,3]; ={3}", "error: input is [2,3], shape is [3]"},
      {"BroadcastGradientArgs", "={2,3}; ={3}", "[?];[?]"},
  });
}

TEST(ShapeFunctionsTest, LookingUpAndChoosing) {
  CheckAll({
      {"GatherV2", "[10,4]; int32[?,3]; =0", "[?,3,4]"},
      {"GatherV2", "[10,4,5]; int32[3]; =1", "[10,3,5]"},
      {"GatherV2", "[10,4]; int32[]; =0", "[4]"},
      {"GatherV2", "[2,4,5]; int32[2,3]; =1", "[2,3,5]", {{"batch_dims", 1}}},
      {"GatherV2", "[10,4]; int32[3]; =2", "error: axis 2 is outside [-2,2)"},
      {"GatherV2", "[]; int32[3]; =0", "error: params must have at least rank 1, is []"},
      {"UnsortedSegmentSum", "[4,3]; int32[4]; =2", "[2,3]"},
      {"UnsortedSegmentSum", "[4,3]; int32[5]; =2", "error: data is [4,3], segment_ids is [5]"},
      {"OneHot", "int32[?,2]; =10; []; []", "[?,2,10]"},
      {"OneHot", "int32[2]; =10; []; []", "[10,2]", {{"axis", 0}}},
      {"OneHot", "int32[2]; int32[]; []; []", "[2,?]"},
      {"Select", "bool[2,3]; [2,3]; [2,?]", "[2,3]"},
      {"Select", "bool[2]; [2,3]; [2,3]", "[2,3]"},
      {"Select", "bool[]; [2,3]; [2,3]", "[2,3]"},
      {"Select", "bool[3]; [2,3]; [2,3]", "error: condition is [3], t is [2,3]"},
      {"SelectV2", "bool[2,1]; [3]; []", "[2,3]"},
      {"SelectV2", "bool[?,1]; [?,3]; [3]", "[?,3]"},
      {"SelectV2", "bool[2]; [3]; []", "error: do not broadcast"},
      {"Where", "bool[2,3]", "[?,2]"},
  });
}

TEST(ShapeFunctionsTest, Arithmetic) {
  CheckAll({
      {"AddV2", "[2,3]; [3]", "[2,3]"},
      {"AddV2", "[2,1]; [1,3]", "[2,3]"},
      {"AddV2", "[?,3]; [?,3]", "[?,3]"},
      {"AddV2", "[?,3]; []", "[?,3]"},
      {"Add", "[4,1,3]; [2,1]", "[4,2,3]"},
      {"AddV2", "[2,3]; [2]", "error: [2,3] and [2]"},
      {"BatchNormWithGlobalNormalization",
       "[2147483648,2147483648,1,?]; [4]; [4]; [4]; [4]",
       "error: no shape has the dimensions [2147483648,2147483648,1,4]",
       {{"variance_epsilon", 0.1f}, {"scale_after_normalization", true}}},
      {"Sub", "[2,3]; [2,3]", "[2,3]"},
      {"Mul", "?; [3]", "?"},
      {"Mul", "[?]; [?,4]", "[?,4]"},
      {"Div", "[2,3]; [3]", "[2,3]"},
      {"RealDiv", "[2,3]; [2,1]", "[2,3]"},
      {"DivNoNan", "[2]; [2]", "[2]"},
      {"FloorDiv", "[2]; [2]", "[2]"},
      {"FloorMod", "[2]; []", "[2]"},
      {"SquaredDifference", "[2,3]; [3]", "[2,3]"},
      {"Maximum", "[2,3]; []", "[2,3]"},
      {"Minimum", "[1,3]; [2,1]", "[2,3]"},
      {"Pow", "[2,3]; []", "[2,3]"},
      {"AddN", "([2,?] [?,3])", "[2,3]"},
      {"AddN", "([2] [3])", "error: shapes differ: inputs[0] is [2], inputs[1] is [3]"},
      {"Less", "[2]; [3]", "error: do not broadcast"},
      {"Equal", "[2]; [3]", "[]", {{"incompatible_shape_error", false}}},
      {"Equal", "[2,1]; [3]", "[2,3]"},
      {"LogicalAnd", "bool[2,1]; bool[3]", "[2,3]"},
      {"LogicalNot", "bool[2]", "[2]"},
      {"IsNan", "[2]", "[2]"},
      {"L2Loss", "[2,3]", "[]"},
  });
  for (const char* op : {"Neg", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Log", "Log1p", "Abs", "Sign",
                         "Floor", "Tanh", "Sigmoid"}) {
    Check({op, "[?,3]", "[?,3]"});
  }
  for (const char* op : {"TanhGrad", "SigmoidGrad"}) {
    Check({op, "[?,3]; [2,?]", "[2,3]"});
    Check({op, "[2]; [3]", "error: shapes differ: y is [2], dy is [3]"});
  }
}

TEST(ShapeFunctionsTest, Reductions) {
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
    CheckAll({
        {op, "[2,3,4]; ={0,2}", "[3]"},
        {op, "[2,3,4]; ={0,2}", "[1,3,1]", {{"keep_dims", true}}},
        {op, "[2,3]; =-1", "[2]"},
        {op, "[2,3]; ={}", "[2,3]"},
        {op, "[?,3]; ={0,1}", "[]"},
        {op, "[?,3]; ={1}", "[?]"},
        {op, "[2,3]; int32[1]", "?"},
        {op, "[2,3]; int32[1]", "[?,?]", {{"keep_dims", true}}},
        {op, "?; ={0}", "?"},
        {op, "[2,3]; ={2}", "error: reduction_indices 2 is outside [-2,2)"},
        {op, "[2,3]; int32[1,1]", "error: reduction_indices must be a scalar or a vector, is [1,1]"},
    });
  }
  CheckAll({
      {"All", "bool[2,3]; ={0}", "[3]"},
      {"Any", "bool[2,3]; ={0}", "[3]"},
      {"ArgMax", "[?,10]; =1", "[?]"},
      {"ArgMax", "[2,10]; int32[]", "[?]"},
      {"ArgMax", "[2,10]; =2", "error: dimension 2 is outside [-2,2)"},
      {"ArgMax", "[]; =0", "error: input must have at least rank 1, is []"},
  });
}

TEST(ShapeFunctionsTest, MatMul) {
  CheckAll({
      {"BatchMatMul", "[5,2,3]; [5,3,4]", "[5,2,4]"},
      {"BatchMatMul", "[5,2,3]; [1,3,4]", "error: batch dimensions differ: x is [5,2,3], y is [1,3,4]"},
      {"BatchMatMulV2", "[5,2,3]; [1,3,4]", "[5,2,4]"},
      {"MatMul", "[?,784]; [784,10]", "[?,10]"},
      {"MatMul", "[784,2]; [784,10]", "[2,10]", {{"transpose_a", true}}},
      {"MatMul", "[2,784]; [10,784]", "[2,10]", {{"transpose_b", true}}},
      {"MatMul", "[784,2]; [10,784]", "[2,10]", {{"transpose_a", true}, {"transpose_b", true}}},
      {"MatMul", "?; [784,10]", "[?,10]"},
      {"MatMul", "[32,784]; [785,100]", "error: inner dimensions differ: a is [32,784], b is [785,100]"},
      {"MatMul",
       "[784,32]; [785,100]",
       "error: a is [784,32] (transpose_a), b is [785,100]",
       {{"transpose_a", true}}},
      {"MatMul", "[784]; [784,10]", "error: a must have rank 2, is [784]"},
  });
}

TEST(ShapeFunctionsTest, NeuralNetworks) {
  CheckAll({
      {"Relu", "[?,3]", "[?,3]"},
      {"ReluGrad", "[?,3]; [2,3]", "[2,3]"},
      {"BiasAdd", "[?,?]; [10]", "[?,10]"},
      {"BiasAdd", "[2,3,4,5]; [3]", "[2,3,4,5]", {{"data_format", "NCHW"}}},
      {"BiasAdd", "[2,3]; [4]", "error: channels differ: value is [2,3], bias is [4]"},
      {"BiasAddGrad", "[2,3,4,5]", "[5]"},
      {"BiasAddGrad", "[2,3,4,5]", "[3]", {{"data_format", "NCHW"}}},
      {"Softmax", "[?,10]", "[?,10]"},
      {"LogSoftmax", "[2,10]", "[2,10]"},
      {"Softmax", "[]", "error: logits must have at least rank 1, is []"},
      {"SoftmaxCrossEntropyWithLogits", "[?,10]; [32,10]", "[32];[32,10]"},
      {"SoftmaxCrossEntropyWithLogits", "[32,10]; [32,11]", "error: features is [32,10], labels is [32,11]"},
      {"SoftmaxCrossEntropyWithLogits", "[10]; [10]", "error: features is [10], labels is [10]"},
      {"SparseSoftmaxCrossEntropyWithLogits", "[?,10]; int32[32]", "[32];[32,10]"},
      {"SparseSoftmaxCrossEntropyWithLogits", "[31,10]; int32[32]",
       "error: batch sizes differ: features is [31,10], labels is [32]"},
      {"SparseSoftmaxCrossEntropyWithLogits", "[31,10]; int32[31,1]",
       "error: labels must have rank 1, is [31,1]"},
      {"InTopKV2", "[?,10]; int32[32]; =1", "[32]"},
  });
}

AttrMap Conv(Ints strides, const char* padding, const char* format = "NHWC") {
  return {{"strides", strides}, {"padding", padding}, {"data_format", format}};
}

AttrMap With(AttrMap attrs, const char* name, AttrValue value) {
  attrs[name] = std::move(value);
  return attrs;
}

TEST(ShapeFunctionsTest, Convolution) {
  const Ints one = {1, 1, 1, 1}, two = {1, 2, 2, 1};
  CheckAll({
      {"Conv2D", "[?,28,28,1]; [5,5,1,32]", "[?,28,28,32]", Conv(one, "SAME")},
      {"Conv2D", "[?,28,28,1]; [5,5,1,32]", "[?,24,24,32]", Conv(one, "VALID")},
      {"Conv2D", "[8,7,9,3]; [3,3,3,4]", "[8,4,5,4]", Conv(two, "SAME")},
      {"Conv2D", "[8,7,9,3]; [3,3,3,4]", "[8,3,4,4]", Conv(two, "VALID")},
      {"Conv2D", "[8,3,7,9]; [3,3,3,4]", "[8,4,4,7]",
       With(Conv({1, 1, 2, 1}, "EXPLICIT", "NCHW"), "explicit_paddings", Ints{0, 0, 0, 0, 1, 1, 0, 0})},
      {"Conv2D", "[8,?,9,3]; [3,3,3,4]", "[8,?,7,4]", Conv(one, "VALID")},
      {"Conv2D", "[8,9,9,3]; [3,3,3,4]", "[8,5,5,4]",
       With(Conv(one, "VALID"), "dilations", Ints{1, 2, 2, 1})},
      {"Conv2D", "[8,9,9,3]; [3,3,4,4]", "error: channels differ: input is [8,9,9,3], filter is [3,3,4,4]",
       Conv(one, "SAME")},
      {"Conv2D", "[8,2,2,3]; [3,3,3,4]", "error: height of [8,2,2,3]: a window of 3 does not fit",
       Conv(one, "VALID")},
      {"Conv2D", "[8,9,9,3]; [3,3,3,4]", "error: attr strides must have 4 elements", Conv({1, 1}, "SAME")},
      {"Conv2D", "[8,9,9,3]; [3,3,3,4]", "error: attr padding is \"FULL\", must be one of",
       Conv(one, "FULL")},
      {"Conv2D", "[9,9,3]; [3,3,3,4]", "error: input must have rank 4, is [9,9,3]", Conv(one, "SAME")},
      {"Conv2DBackpropInput", "={8,28,28,1}; [5,5,1,32]; [8,28,28,32]", "[8,28,28,1]", Conv(one, "SAME")},
      {"Conv2DBackpropInput", "={8,28,28,1}; [5,5,1,32]; [8,24,28,32]",
       "error: out_backprop must be [8,28,28,32], is [8,24,28,32]", Conv(one, "SAME")},
      {"Conv2DBackpropInput", "int32[4]; [5,5,1,32]; [8,28,28,32]", "[?,?,?,?]", Conv(one, "SAME")},
      {"Conv2DBackpropFilter", "[8,28,28,1]; ={5,5,1,32}; [8,28,28,32]", "[5,5,1,32]", Conv(one, "SAME")},
      {"Conv2DBackpropFilter", "[8,28,28,1]; ={5,5,1}; [8,28,28,32]", "error: tensor of rank 4, are [5,5,1]",
       Conv(one, "SAME")},
  });
}

TEST(ShapeFunctionsTest, Pooling) {
  const Ints two = {1, 2, 2, 1};
  const AttrMap same = With(Conv(two, "SAME"), "ksize", two), valid = With(Conv(two, "VALID"), "ksize", two);
  for (const char* op : {"MaxPool", "AvgPool"}) {
    CheckAll({
        {op, "[?,7,8,3]", "[?,4,4,3]", same},
        {op, "[?,7,8,3]", "[?,3,4,3]", valid},
        {op, "[?,1,8,3]", "error: height of [?,1,8,3]: a window of 2 does not fit", valid},
        {op, "[?,7,8,3]",
         "error: attr ksize must have 4 elements, 1 for batch and channels, is [2,2,2,1] (NHWC)",
         With(same, "ksize", Ints{2, 2, 2, 1})},
    });
  }
  CheckAll({
      {"MaxPoolGrad", "[2,7,8,3]; [2,4,4,3]; [2,4,4,3]", "[2,7,8,3]", same},
      {"MaxPoolGrad", "[2,7,8,3]; [2,4,4,3]; [2,4,5,3]", "error: grad must be [2,4,4,3], is [2,4,5,3]", same},
      {"MaxPoolGradGrad", "[2,7,8,3]; [2,4,4,3]; [2,7,8,3]", "[2,4,4,3]", same},
      {"MaxPoolGradGrad", "[2,7,8,3]; [2,4,5,3]; [2,7,8,3]",
       "error: orig_output must be [2,4,4,3], is [2,4,5,3]", same},
      {"MaxPoolGradGrad", "[2,7,8,3]; [2,4,4,3]; [2,4,4,3]", "error: grad must be [2,7,8,3], is [2,4,4,3]",
       same},
      {"AvgPoolGrad", "={2,7,8,3}; [2,4,4,3]", "[2,7,8,3]", same},
      {"AvgPoolGrad", "={2,7,8,3}; [2,4,5,3]", "error: grad must be [2,4,4,3], is [2,4,5,3]", same},
  });
}

TEST(ShapeFunctionsTest, CheckpointsSummariesChecks) {
  const std::vector<DType> two = {DType::kFloat32, DType::kFloat32};
  CheckAll({
      {"SaveV2", "string[]; string[2]; string[2]; ([2] [3])", ""},
      {"SaveV2", "string[]; string[3]; string[2]; ([2] [3])",
       "error: tensor_names must name 2 tensors (attr dtypes), is [3]"},
      {"RestoreV2", "string[]; string[2]; string[2]", "?;?", {{"dtypes", two}}},
      {"RestoreV2",
       "string[1]; string[2]; string[2]",
       "error: prefix must have rank 0, is [1]",
       {{"dtypes", two}}},
      {"ScalarSummary", "string[]; []", "[]"},
      {"ScalarSummary", "string[2]; [3]", "error: every value needs a tag: tags is [2], values is [3]"},
      {"HistogramSummary", "string[]; [3,4]", "[]"},
      {"MergeSummary", "(string[] string[])", "[]"},
      {"CheckNumerics", "[?,3]", "[?,3]", {{"message", "loss"}}},
      {"Assert", "bool[]; ([2] [3])", ""},
      {"Assert", "bool[1]; ([2] [3])", "error: condition must have rank 0, is [1]"},
  });
}

// ---- Variables ----

class VariableShapeTest : public testing::Test {
 protected:
  Output Handle(PartialShape shape, DType dtype = DType::kFloat32) {
    return g_.AddOp("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}});
  }
  Output Value(absl::string_view text) { return AddInput(g_, text); }
  void ExpectError(absl::string_view text) {
    EXPECT_TRUE(absl::StrContains(g_.status().message(), text)) << g_.status();
  }
  GraphBuilder g_{StandardOps()};
};

TEST_F(VariableShapeTest, ReadKnowsDTypeAndShape) {
  const Output handle = Handle({784, 10});
  EXPECT_EQ(handle.shape().ToString(), "[]");
  const Output value = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  EXPECT_EQ(value.shape().ToString(), "[784,10]");
  const Output through = g_.AddOp("Identity", {handle});
  EXPECT_EQ(g_.AddOp("ReadVariableOp", {through}, {{"dtype", DType::kFloat32}}).shape().ToString(),
            "[784,10]");
  g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kInt32}});
  ExpectError("dtypes differ: the variable behind resource is float, the op's is int32");
}

TEST_F(VariableShapeTest, AssignChecksShape) {
  g_.AddNode("AssignVariableOp", {Handle({2, 3}), Value("[?,3]")});
  EXPECT_TRUE(g_.ok()) << g_.status();
  g_.AddNode("AssignAddVariableOp", {Handle({2, 3}), Value("[2,4]")});
  ExpectError("shapes differ: the variable behind resource is [2,3], value is [2,4]");
}

TEST_F(VariableShapeTest, UpdatesCheckTheGradientAndTheScalars) {
  g_.AddNode("ResourceApplyMomentum", {Handle({2}), Handle({2}), Value("[]"), Value("[2]"), Value("[]")});
  EXPECT_TRUE(g_.ok()) << g_.status();
  g_.AddNode("ResourceApplyMomentum", {Handle({2}), Handle({3}), Value("[]"), Value("[2]"), Value("[]")});
  ExpectError("the variable behind accum is [3], grad is [2]");
}

TEST_F(VariableShapeTest, UpdateScalarsMustBeScalars) {
  g_.AddNode("ResourceApplyGradientDescent", {Handle({2}), Value("[1]"), Value("[2]")});
  ExpectError("alpha must have rank 0, is [1]");
}

}  // namespace
}  // namespace weir
