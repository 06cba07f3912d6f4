#include "graph/shape_inference.h"

#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

absl::Status ConstShape(ShapeInference& inference) {
  inference.set_output(0, inference.attr<Tensor>("value").shape());
  return absl::OkStatus();
}

absl::Status SourceShape(ShapeInference& inference) {
  inference.set_output(0, inference.attr<PartialShape>("shape"));
  return absl::OkStatus();
}

absl::Status ReshapeShape(ShapeInference& inference) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, inference.InputAsShape(1));
  inference.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status VectorShape(ShapeInference& inference) {
  inference.set_output(0, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status PackShape(ShapeInference& inference) {
  const PartialShape& part = inference.input(0);
  if (part.has_rank()) inference.set_output(0, PartialShape::OfRank(part.rank() + 1));
  return absl::OkStatus();
}

absl::Status ExpandDimsShape(ShapeInference& inference) {
  inference.set_output(0, PartialShape::OfRank(inference.input(0).rank() + 1));
  return absl::OkStatus();
}

// As TensorFlow's op, for the one kind of slice these tests make: x[index], whose shape is unknown here.
constexpr char kSlice[] = "StridedSlice";

// Ops whose values the inference follows, under TensorFlow's names, so that graph/ is tested without ops/.
class InputAsShapeTest : public testing::Test {
 protected:
  InputAsShapeTest() : g_(ops_) {
    Register({.name = "Const",
              .outputs = {"output: dtype"},
              .attrs = {"value: tensor", "dtype: type"},
              .infer_shapes = ConstShape});
    Register({.name = "Source",
              .outputs = {"output: dtype"},
              .attrs = {"dtype: type = float", "shape: shape = ?"},
              .infer_shapes = SourceShape});
    Register({.name = "Reshape",
              .inputs = {"tensor: float", "shape: T"},
              .outputs = {"output: float"},
              .attrs = {"T: type"},
              .infer_shapes = ReshapeShape});
    Register(
        {.name = "Shape", .inputs = {"x: float"}, .outputs = {"shape: int32"}, .infer_shapes = VectorShape});
    Register({.name = "Cast",
              .inputs = {"x: SrcT"},
              .outputs = {"y: DstT"},
              .attrs = {"SrcT: type", "DstT: type"},
              .infer_shapes = UnchangedShape});
    Register({.name = "ExpandDims",
              .inputs = {"input: T"},
              .outputs = {"output: T"},
              .attrs = {"T: type"},
              .infer_shapes = ExpandDimsShape});
    Register({.name = "Pack",
              .inputs = {"values: N * T"},
              .outputs = {"output: T"},
              .attrs = {"N: int >= 1", "T: type"},
              .infer_shapes = PackShape});
    Register({.name = "ConcatV2",
              .inputs = {"values: N * T", "axis: int32"},
              .outputs = {"output: T"},
              .attrs = {"N: int >= 2", "T: type"},
              .infer_shapes = VectorShape});
    Register({.name = kSlice,
              .inputs = {"input: T", "begin: int32", "end: int32", "strides: int32"},
              .outputs = {"output: T"},
              .attrs = {"T: type", "begin_mask: int = 0", "end_mask: int = 0", "ellipsis_mask: int = 0",
                        "new_axis_mask: int = 0", "shrink_axis_mask: int = 0"},
              .infer_shapes = UnknownShape});
  }

  void Register(OpDef def) {
    def.gradient = NotDifferentiable;
    const absl::Status status = ops_.Register(def);
    EXPECT_TRUE(status.ok()) << status;
  }

  Output Constant(Tensor value) {
    const DType dtype = value.dtype();
    return g_.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  }
  Output Ints(std::initializer_list<int32_t> values) { return Constant(Tensor::Vector<int32_t>(values)); }
  Output Source(DType dtype, PartialShape shape) {
    return g_.AddOp("Source", {}, {{"dtype", dtype}, {"shape", shape}});
  }
  Output Cast(Output x, DType to) { return g_.AddOp("Cast", {x}, {{"DstT", to}}); }
  Output Pack(std::vector<Output> values) { return g_.AddOp("Pack", {InputArg(std::move(values))}); }
  // x[begin:end], or x[begin].
  Output Slice(Output x, int begin, int end) {
    return g_.AddOp(kSlice, {x, Ints({begin}), Ints({end}), Ints({1})});
  }
  Output Element(Output x, int index) {
    return g_.AddOp(kSlice, {x, Ints({index}), Ints({index + 1}), Ints({1})}, {{"shrink_axis_mask", 1}});
  }

  std::string ShapeOf(Output shape) {
    const Output y = g_.AddOp("Reshape", {Source(DType::kFloat32, PartialShape()), shape});
    return g_.ok() ? y.shape().ToString() : std::string(g_.status().message());
  }

  OpRegistry ops_;
  GraphBuilder g_;
};

TEST_F(InputAsShapeTest, FollowsVectorsThroughTheirPieces) {
  const Output shape = g_.AddOp("Shape", {Source(DType::kFloat32, {-1, 28, 3})});
  EXPECT_EQ(ShapeOf(Ints({2, -1})), "[2,?]");
  EXPECT_EQ(ShapeOf(shape), "[?,28,3]");
  EXPECT_EQ(ShapeOf(Slice(shape, 1, 3)), "[28,3]");
  EXPECT_EQ(ShapeOf(Slice(shape, -2, 99)), "[28,3]");
  EXPECT_EQ(ShapeOf(Pack({Element(shape, 1), Element(shape, 0)})), "[28,?]");
  EXPECT_EQ(ShapeOf(g_.AddOp("ConcatV2", {InputArg({Slice(shape, 1, 2), Ints({5})}), Ints({0})})), "[28,5]");
  EXPECT_EQ(ShapeOf(g_.AddOp("ExpandDims", {Element(shape, 2)})), "[3]");
  EXPECT_EQ(ShapeOf(Cast(shape, DType::kInt64)), "[?,28,3]");
}

TEST_F(InputAsShapeTest, ARowOfAMatrixIsNotAnElementOfItsElements) {
  const Output matrix = Constant(Tensor::From<int32_t>({2, 2}, {2, 3, 4, 5}));
  const std::string unknown = PartialShape().ToString();
  EXPECT_EQ(ShapeOf(Element(matrix, 1)), unknown);
  EXPECT_EQ(ShapeOf(Element(Cast(matrix, DType::kInt64), 1)), unknown);
  EXPECT_EQ(ShapeOf(Element(Pack({Ints({2, 3}), Ints({4, 5})}), 1)), unknown);
  EXPECT_EQ(ShapeOf(Element(g_.AddOp("ExpandDims", {Ints({2, 3})}), 0)), unknown);
  // Of unknown rank: u and v may be vectors.
  const Output u = Source(DType::kInt32, PartialShape()), v = Source(DType::kInt32, PartialShape());
  EXPECT_EQ(ShapeOf(Element(Pack({u, v}), 1)), unknown);
}

TEST_F(InputAsShapeTest, CastsThatChangeValuesHideThem) {
  EXPECT_EQ(ShapeOf(Cast(Cast(Ints({5}), DType::kBool), DType::kInt32)), "[?]");
  EXPECT_EQ(ShapeOf(Cast(Cast(Ints({300}), DType::kInt8), DType::kInt32)), "[?]");
  EXPECT_EQ(ShapeOf(Cast(Constant(Tensor::Vector<int64_t>({(int64_t{1} << 32) + 7, 8})), DType::kInt32)),
            "[?,8]");
}

// 100^16 paths lead back to the empty vector.
TEST_F(InputAsShapeTest, GivesUpWhereTheGraphIsTooWide) {
  Output wide = Slice(Ints({1}), 1, 1);
  for (int level = 0; level < 16; ++level) {
    wide = g_.AddOp("ConcatV2", {InputArg(std::vector<Output>(100, wide)), Ints({0})});
  }
  EXPECT_EQ(ShapeOf(wide), PartialShape().ToString());
}

TEST_F(InputAsShapeTest, RefusesConstantDimensionsBelowMinusOne) {
  EXPECT_THAT(ShapeOf(Ints({2, -2})), testing::HasSubstr("shape: "));
}

}  // namespace
}  // namespace weir
