// Stacks and arrays of tensors as steps see them. tests/interop compares loops with TensorFlow's.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorArraysTest : public TestOpSession {
 protected:
  const AttrMap kFloats = {{"dtype", D::kFloat32}};

  Output Int(int32_t value) { return Const(Tensor::Scalar(value)); }
  Output Float(float value) { return Const(Tensor::Scalar(value)); }
  Node* Array(int32_t size, AttrMap attrs = {}) {
    attrs["dtype"] = D::kFloat32;
    return g_.AddNode("TensorArrayV3", {Int(size)}, std::move(attrs));
  }
  // The flow behind it.
  Output Write(Node* array, int32_t index, Output value, Output flow) {
    return g_.AddOp("TensorArrayWriteV3", {array->output(0), Int(index), value, flow});
  }
  Output Read(Node* array, int32_t index, Output flow) {
    return g_.AddOp("TensorArrayReadV3", {array->output(0), Int(index), flow}, kFloats);
  }
  Output Gather(Node* array, std::vector<int32_t> indices, Output flow) {
    const Tensor all = Tensor::FromSpan<int32_t>(Shape({static_cast<int64_t>(indices.size())}), indices);
    return g_.AddOp("TensorArrayGatherV3", {array->output(0), Const(all), flow}, kFloats);
  }
};

TEST_F(TensorArraysTest, EachStepHasAnArrayOfItsOwn) {
  Node* const array = Array(2);
  const Output flow = Write(array, 1, Float(5), Write(array, 0, Float(4), array->output(1)));
  const Output all = Gather(array, {1, 0}, flow);
  for (int step = 0; step < 3; ++step) {
    EXPECT_THAT(Floats(RunAnew({all}).value()[0]), ElementsAre(5, 4));
  }
}

TEST_F(TensorArraysTest, AnElementIsWrittenOnceAndReadOnce) {
  Node* const array = Array(2);
  const Output flow = Write(array, 0, Float(4), array->output(1));
  EXPECT_THAT(ErrorOf(Write(array, 0, Float(4), flow)), HasSubstr("because it has already been written to"));
  const Output once = Read(array, 0, flow);
  EXPECT_THAT(ErrorOf(Read(array, 0, once)), HasSubstr("Could not read index 0 twice"));
  EXPECT_THAT(ErrorOf(Write(array, 0, Float(1), once)), HasSubstr("because it has already been read"));
  Node* const kept = Array(1, {{"clear_after_read", false}});
  const Output first = Read(kept, 0, Write(kept, 0, Float(4), kept->output(1)));
  EXPECT_EQ(ErrorOf(Read(kept, 0, first)), "no error");
}

TEST_F(TensorArraysTest, IndicesTypesAndShapesAreChecked) {
  Node* const array = Array(1, {{"element_shape", PartialShape(Shape({2}))}});
  const Output flow = array->output(1);
  EXPECT_THAT(ErrorOf(Write(array, 1, Float(1), flow)), HasSubstr("Tried to write to index 1"));
  EXPECT_THAT(ErrorOf(Write(array, -1, Float(1), flow)), HasSubstr("Tried to write to index -1"));
  EXPECT_THAT(ErrorOf(Read(array, 1, flow)), HasSubstr("Tried to read from index 1 but array size is: 1"));
  EXPECT_THAT(ErrorOf(Write(array, 0, Int(1), flow)), HasSubstr("trying to write dtype int32"));
  EXPECT_THAT(ErrorOf(Write(array, 0, Float(1), flow)), HasSubstr("inferred element shape: [2]"));
  Node* const dynamic = Array(0, {{"dynamic_size", true}});
  EXPECT_EQ(ErrorOf(Read(dynamic, 5, Write(dynamic, 5, Float(1), dynamic->output(1)))), "no error");
  EXPECT_THAT(ErrorOf(Read(dynamic, 3, Write(dynamic, 5, Float(1), dynamic->output(1)))),
              HasSubstr("element shape is not fully defined"));
  EXPECT_THAT(ErrorOf(Write(dynamic, 2147483647, Float(1), dynamic->output(1))), HasSubstr("are possible"));
}

TEST_F(TensorArraysTest, ArraysCountAgainstTheMemoryOfTheirDevice) {
  const std::unique_ptr<Runtime> small = Runtime::Create({.memory_limit = int64_t{8} << 20}).value();
  LocalWorker worker(*small, small->task());
  Node* const dynamic = Array(0, {{"dynamic_size", true}});
  Node* const array = Array(40'000);
  Node* const gradient =
      g_.AddNode("TensorArrayGradV3", {array->output(0), array->output(1)}, {{"source", "g"}});
  const Output large = Array(1 << 20)->output(1), fits = Array(20'000)->output(1);
  const Output grown = Write(dynamic, 1 << 20, Float(1), dynamic->output(1));
  ASSERT_TRUE(g_.ok()) << g_.status();
  const auto limited = Session::Create(g_.graph(), {&worker}, small->kernels()).value();
  for (const Output& output : {large, grown, gradient->output(1)}) {
    const absl::Status status = limited->Run({}, {output}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << output.node->Describe() << status;
  }
  // What ended has been given back.
  for (int step = 0; step < 20; ++step) {
    const auto result = limited->Run({}, {fits});
    ASSERT_TRUE(result.ok()) << result.status();
  }
}

TEST_F(TensorArraysTest, AGradientAddsWhatIsWrittenAndIsFoundAgain) {
  Node* const array = Array(2);
  const Output flow = Write(array, 1, Float(2), Write(array, 0, Float(1), array->output(1)));
  Node* const gradient = g_.AddNode("TensorArrayGradV3", {array->output(0), flow}, {{"source", "g"}});
  Node* const same = g_.AddNode("TensorArrayGradV3", {array->output(0), flow}, {{"source", "g"}});
  const Output added = Write(same, 0, Float(20), Write(gradient, 0, Float(10), gradient->output(1)));
  // Nobody wrote element 1.
  const auto values = RunAnew({Gather(gradient, {0, 1}, added)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(30, 0));
}

TEST_F(TensorArraysTest, AGradientMayHaveFurtherDimensions) {
  Node* const array = Array(2);
  const Output written = Write(array, 0, Const(Tensor::Vector<float>({1, 2})), array->output(1));
  Node* const gradient =
      g_.AddNode("TensorArrayGradWithShape", {array->output(0), written, Const(Tensor::Vector<int32_t>({3}))},
                 {{"source", "g"}});
  const auto read = [&](int32_t index, Output flow) {
    return g_.AddOp("TensorArrayReadV3", {gradient->output(0), Int(index), flow}, kFloats);
  };
  const Output six = Const(Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const auto values =
      RunAnew({read(0, gradient->output(1)), read(1, Write(gradient, 1, six, gradient->output(1)))});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].shape(), Shape({3, 2}));
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(1, 2, 3, 4, 5, 6));
  Node* const wrong =
      g_.AddNode("TensorArrayGradWithShape",
                 {array->output(0), written, Const(Tensor::Vector<int32_t>({-1}))}, {{"source", "h"}});
  EXPECT_THAT(ErrorOf(wrong->output(1)), HasSubstr("shape_to_prepend"));
}

TEST_F(TensorArraysTest, SlicesAreWrittenAndJoined) {
  Node* const array = Array(2);
  const Output value = Const(Tensor::Vector<float>({1, 2, 3}));
  const Output lengths = Const(Tensor::Vector<int64_t>({1, 2}));
  const Output flow = g_.AddOp("TensorArraySplitV3", {array->output(0), value, lengths, array->output(1)});
  Node* const whole = g_.AddNode("TensorArrayConcatV3", {array->output(0), flow}, kFloats);
  const auto values = RunAnew({whole->output(0), whole->output(1)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ((*values)[1].flat<int64_t>()[1], 2);
}

TEST_F(TensorArraysTest, AStackGivesBackWhatCameLast) {
  const Output stack = g_.AddOp("StackV2", {Int(2)}, {{"elem_type", D::kFloat32}});
  const Output one = g_.AddOp("StackPushV2", {stack, Float(1)});
  Output two, popped, again, third;
  {
    auto scope = g_.ControlScope({one.node});
    two = g_.AddOp("StackPushV2", {stack, Float(2)});
  }
  {
    auto scope = g_.ControlScope({two.node});
    popped = g_.AddOp("StackPopV2", {stack}, {{"elem_type", D::kFloat32}});
    third = g_.AddOp("StackPushV2", {stack, Float(3)});
  }
  {
    auto scope = g_.ControlScope({popped.node});
    again = g_.AddOp("StackPopV2", {stack}, {{"elem_type", D::kFloat32}});
  }
  const auto values = RunAnew({popped, again});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 2);
  EXPECT_EQ((*values)[1].scalar<float>(), 1);
  EXPECT_THAT(ErrorOf(third), HasSubstr("overflowed its max_size (2)"));
  const Output empty = g_.AddOp("StackV2", {Int(-1)}, {{"elem_type", D::kFloat32}});
  EXPECT_THAT(ErrorOf(g_.AddOp("StackPopV2", {empty}, {{"elem_type", D::kFloat32}})),
              HasSubstr("is empty when calling Pop()"));
  EXPECT_THAT(ErrorOf(g_.AddOp("StackPushV2", {empty, Int(1)})), HasSubstr("an element of int32"));
  EXPECT_THAT(
      ErrorOf(g_.AddOp("StackPushV2", {empty, empty})),
      HasSubstr("stacks hold numbers, strings, values made of these and tensor arrays, not resource"));
  const Output none = g_.AddOp("StackV2", {Int(0)}, {{"elem_type", D::kFloat32}});
  EXPECT_THAT(ErrorOf(g_.AddOp("StackPushV2", {none, Float(1)})), HasSubstr("overflowed its max_size (0)"));
}

// The gradients of arrays that a loop makes are found by handles on a stack.
TEST_F(TensorArraysTest, AStackHoldsArrays) {
  Node* const array = Array(1);
  const Output written = Write(array, 0, Float(7), array->output(1));
  const Output stack = g_.AddOp("StackV2", {Int(-1)}, {{"elem_type", D::kResource}});
  Output popped;
  {
    const Output pushed = g_.AddOp("StackPushV2", {stack, array->output(0)});
    auto scope = g_.ControlScope({pushed.node, written.node});
    popped = g_.AddOp("StackPopV2", {stack}, {{"elem_type", D::kResource}});
  }
  const Output value = g_.AddOp("TensorArrayReadV3", {popped, Int(0), Float(0)}, kFloats);
  const auto values = RunAnew({value});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 7);
}

}  // namespace
}  // namespace weir
