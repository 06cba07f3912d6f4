// Lists of tensors and optionals as steps see them: values that are shared are not changed, and what hostile
// graphs make of them stays bounded. tests/interop compares the values with TensorFlow's.
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

class TensorListsTest : public TestOpSession {
 protected:
  const AttrMap kFloats = {{"element_dtype", D::kFloat32}};

  Output Int(int32_t value) { return Const(Tensor::Scalar(value)); }
  Output Float(float value) { return Const(Tensor::Scalar(value)); }
  Output AnyShape() { return Int(-1); }
  Output Scalars() { return Const(Tensor(D::kInt32, Shape({0}))); }
  Output Reserve(int32_t length, DType dtype = D::kFloat32) {
    return g_.AddOp("TensorListReserve", {Scalars(), Int(length)}, {{"element_dtype", dtype}});
  }
  Output Set(Output list, int32_t index, Output item, AttrMap attrs = {}) {
    return g_.AddOp("TensorListSetItem", {list, Int(index), item}, std::move(attrs));
  }
  Output Push(Output list, Output item) { return g_.AddOp("TensorListPushBack", {list, item}); }
  Output Stack(Output list) { return g_.AddOp("TensorListStack", {list, Scalars()}, kFloats); }
  Output Length(Output list) { return g_.AddOp("TensorListLength", {list}); }
};

TEST_F(TensorListsTest, AListThatIsSharedIsNotChanged) {
  const Output reserved = Reserve(2);
  const Output one = Set(reserved, 0, Float(1)), two = Set(reserved, 0, Float(2));
  const Output both = Set(one, 1, Float(3));
  const Output longer = Push(both, Float(4));
  const auto values = RunAnew({Stack(reserved), Stack(one), Stack(two), Stack(both), Stack(longer)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(0, 0));
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(1, 0));
  EXPECT_THAT(Floats((*values)[2]), ElementsAre(2, 0));
  EXPECT_THAT(Floats((*values)[3]), ElementsAre(1, 3));
  EXPECT_THAT(Floats((*values)[4]), ElementsAre(1, 3, 4));
}

// A loop of version 1 keeps the lists of functions that it calls, for their gradients.
TEST_F(TensorListsTest, AStackHoldsLists) {
  const AttrMap variants = {{"elem_type", D::kVariant}};
  const Output stack = g_.AddOp("StackV2", {Int(-1)}, variants);
  const Output outer = Push(Reserve(0, D::kVariant), Push(Reserve(0), Float(4)));
  const Output pushed = g_.AddOp("StackPushV2", {stack, Push(Reserve(0), Float(2))});
  const Output changed = Push(pushed, Float(3));
  Output nested, popped;
  {
    auto after = g_.ControlScope({changed.node});
    nested = g_.AddOp("StackPushV2", {stack, outer});
  }
  {
    auto after = g_.ControlScope({nested.node});
    popped = g_.AddOp("StackPopV2", {stack}, variants);
  }
  Output first;
  {
    auto after = g_.ControlScope({popped.node});
    first = g_.AddOp("StackPopV2", {stack}, variants);
  }
  const auto values = RunAnew({Length(popped), Stack(first), Stack(changed)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<int32_t>(), 1);
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(2));
  EXPECT_THAT(Floats((*values)[2]), ElementsAre(2, 3));
}

TEST_F(TensorListsTest, ARowIsPushedToEachList) {
  const Output one = Push(Reserve(0), Float(1));
  const Output lists = g_.AddOp("Pack", {std::vector<Output>{one, Reserve(0)}});
  const Output rows = Const(Tensor::Vector<float>({7, 8}));
  const Output pushed = g_.AddOp("TensorListPushBackBatch", {lists, rows});
  Node* const each = g_.AddNode("Unpack", {pushed}, {{"num", 2}});
  const auto values = RunAnew({Stack(each->output(0)), Stack(each->output(1)), Stack(one)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(1, 7));
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(8));
  EXPECT_THAT(Floats((*values)[2]), ElementsAre(1));
  const Output whole = Const(Tensor::Vector<int32_t>({7, 8}));
  EXPECT_THAT(ErrorOf(g_.AddOp("TensorListPushBackBatch", {lists, whole})), HasSubstr("float"));
}

TEST_F(TensorListsTest, ListsOfTwoTensorsAreJoinedOneByOne) {
  const Output one = Push(Reserve(0), Float(1)), none = Reserve(0);
  const auto pack = [&](Output a, Output b) { return g_.AddOp("Pack", {std::vector<Output>{a, b}}); };
  const auto join = [&](Output a, Output b) { return g_.AddOp("TensorListConcatLists", {a, b}, kFloats); };
  const Output lists = pack(one, Push(one, Float(2)));
  const Output joined = join(lists, pack(Push(none, Float(3)), one)), doubled = join(joined, joined);
  std::vector<TensorRef> fetches = {Stack(one)};
  for (const Output& all : {joined, doubled, join(lists, pack(none, none))}) {
    Node* const each = g_.AddNode("Unpack", {all}, {{"num", 2}});
    for (int i = 0; i < 2; ++i) fetches.push_back(Stack(each->output(i)));
  }
  const auto values = RunAnew(fetches);
  ASSERT_TRUE(values.ok()) << values.status();
  std::vector<std::vector<float>> found;
  for (const Tensor& value : *values) found.push_back(Floats(value));
  const std::vector<std::vector<float>> wanted = {{1}, {1, 3}, {1, 2, 1}, {1, 3, 1, 3}, {1, 2, 1, 1, 2, 1},
                                                  {1}, {1, 2}};
  EXPECT_EQ(found, wanted);
  const Output vectors =
      g_.AddOp("TensorListReserve", {Const(Tensor::Vector<int32_t>({2})), Int(0)}, kFloats);
  EXPECT_THAT(ErrorOf(join(one, vectors)), HasSubstr("element shapes are not identical at index 0"));
}

// Half a megabyte of handles to one list that has 255 elements would become lists of 12 KB each.
TEST_F(TensorListsTest, ListsCountAgainstTheMemoryOfTheirDevice) {
  constexpr int64_t kLists = 4096;
  const std::unique_ptr<Runtime> small = Runtime::Create({.memory_limit = int64_t{8} << 20}).value();
  LocalWorker worker(*small, small->task());
  const Output count = Const(Tensor::Vector<int64_t>({kLists}));
  const auto lists_of = [&](int length) {
    const Output one = g_.AddOp("ExpandDims", {Reserve(length), Int(0)});
    return g_.AddOp("Tile", {one, count});
  };
  const Output rows = g_.AddOp("Fill", {count, Float(1)});
  const Output many = g_.AddOp("TensorListPushBackBatch", {lists_of(255), rows});
  const Output few = g_.AddOp("TensorListPushBackBatch", {lists_of(0), rows});
  const Output reserved = Reserve(1 << 20);
  const Output grown = Set(Reserve(0), 1 << 20, Float(1), {{"resize_if_index_out_of_bounds", true}});
  const Output resized = g_.AddOp("TensorListResize", {Reserve(0), Int(1 << 20)});
  const Output highest = Const(Tensor::Vector<int32_t>({1 << 20}));
  const Output row = Const(Tensor::Vector<float>({1}));
  const Output scattered = g_.AddOp("TensorListScatter", {row, highest, Scalars()});
  const Output of_length =
      g_.AddOp("TensorListScatterV2", {row, Const(Tensor::Vector<int32_t>({0})), Scalars(), Int(1 << 20)});
  const Output into_existing = g_.AddOp("TensorListScatterIntoExistingList", {Reserve(0), row, highest});
  const Output no_elements = Const(Tensor::Vector<int32_t>({0}));
  const Output empty_rows = g_.AddOp("Fill", {Const(Tensor::Vector<int32_t>({1 << 20, 0})), Float(0)});
  const Output of_tensor = g_.AddOp("TensorListFromTensor", {empty_rows, no_elements});
  const Output nothing = Const(Tensor(D::kFloat32, Shape({0})));
  const Output lengths =
      g_.AddOp("Fill", {Const(Tensor::Vector<int32_t>({1 << 17})), Const(Tensor::Scalar<int64_t>(0))});
  const Output split = g_.AddOp("TensorListSplit", {nothing, no_elements, lengths});
  const Output half = Reserve(1 << 16);
  const Output joined = g_.AddOp("TensorListConcatLists", {half, half}, kFloats);
  const Output counted = g_.AddOp("Shape", {few}), length = Length(Reserve(1 << 10));
  ASSERT_TRUE(g_.ok()) << g_.status();
  const auto limited = Session::Create(g_.graph(), {&worker}, small->kernels()).value();
  for (const Output& output :
       {g_.AddOp("Shape", {many}), Length(reserved), Length(grown), Length(resized), Length(scattered),
        Length(of_length), Length(into_existing), Length(of_tensor), Length(split), Length(joined)}) {
    const auto session = Session::Create(g_.graph(), {&worker}, small->kernels()).value();
    const absl::Status status = session->Run({}, {output}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted)
        << output.node->input(0).node->Describe() << ": " << status;
  }
  // What ended has been given back.
  for (int step = 0; step < 20; ++step) {
    const auto result = limited->Run({}, {counted, length});
    ASSERT_TRUE(result.ok()) << result.status();
  }
}

// Lists are copied by parts.
TEST_F(TensorListsTest, ALongListThatIsSharedIsNotChanged) {
  constexpr int kLength = 700;
  const Output numbers = Const(Tensor(D::kFloat32, Shape({kLength})));
  const Output zeros = g_.AddOp("TensorListFromTensor", {g_.AddOp("ZerosLike", {numbers}), Scalars()});
  const Output changed = Set(Set(zeros, 0, Float(1)), 600, Float(2));
  const Output longer = Push(changed, Float(3));
  const Output shorter = g_.AddOp("TensorListResize", {longer, Int(512)});
  const Output grown = Push(shorter, Float(4));
  const Output sum = g_.AddOp("AddN", {std::vector<Output>{changed, changed, zeros}});
  Node* const popped = g_.AddNode("TensorListPopBack", {grown, Scalars()}, kFloats);
  const auto values = RunAnew({Stack(zeros), Stack(changed), Stack(longer), Stack(shorter), Stack(grown),
                               Stack(sum), Stack(popped->output(0)), popped->output(1)});
  ASSERT_TRUE(values.ok()) << values.status();
  const auto list = [](int length, std::vector<std::pair<int, float>> elements) {
    std::vector<float> all(length, 0);
    for (const auto& [index, value] : elements) all[index] = value;
    return all;
  };
  EXPECT_EQ(Floats((*values)[0]), list(kLength, {}));
  EXPECT_EQ(Floats((*values)[1]), list(kLength, {{0, 1}, {600, 2}}));
  EXPECT_EQ(Floats((*values)[2]), list(kLength + 1, {{0, 1}, {600, 2}, {kLength, 3}}));
  EXPECT_EQ(Floats((*values)[3]), list(512, {{0, 1}}));
  EXPECT_EQ(Floats((*values)[4]), list(513, {{0, 1}, {512, 4}}));
  EXPECT_EQ(Floats((*values)[5]), list(kLength, {{0, 2}, {600, 4}}));
  EXPECT_EQ(Floats((*values)[6]), list(512, {{0, 1}}));
  EXPECT_EQ((*values)[7].scalar<float>(), 4);
}

TEST_F(TensorListsTest, AListGrowsWhereItMay) {
  const Output grown = Set(Reserve(0), 3, Float(1), {{"resize_if_index_out_of_bounds", true}});
  const Output twice = g_.AddOp("TensorListConcatLists", {grown, grown}, kFloats);
  const Output resized = g_.AddOp("TensorListResize", {twice, Int(5)});
  const Output fixed = Set(Reserve(1), 3, Float(1));
  const auto values = RunAnew({Stack(grown), Length(twice), Stack(resized)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(0, 0, 0, 1));
  EXPECT_EQ((*values)[1].scalar<int32_t>(), 8);
  EXPECT_THAT(Floats((*values)[2]), ElementsAre(0, 0, 0, 1, 0));
  EXPECT_THAT(ErrorOf(fixed), HasSubstr("element 3 in a list with 1 elements"));
}

TEST_F(TensorListsTest, GradientsOfListsAreAdded) {
  const Output a = Set(Reserve(3), 0, Float(1)), b = Push(Set(Reserve(2), 0, Float(10)), Float(5));
  const Output sum = g_.AddOp("AddN", {std::vector<Output>{a, b, a}});
  const Output zeros = g_.AddOp("ZerosLike", {b});
  const Output shorter = g_.AddOp("AddN", {std::vector<Output>{a, Reserve(1)}});
  const auto values = RunAnew({Stack(sum), Stack(zeros)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(12, 0, 5));
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(0, 0, 0));
  EXPECT_THAT(ErrorOf(shorter), HasSubstr("cannot add TensorList of 1"));
}

TEST_F(TensorListsTest, TypesShapesAndLimitsAreChecked) {
  EXPECT_THAT(ErrorOf(Push(Reserve(0), Int(1))), HasSubstr("Invalid data types; op elements int32"));
  EXPECT_THAT(ErrorOf(Push(Reserve(0), Const(Tensor::Vector<float>({1, 2})))),
              HasSubstr("incompatible shape to a list. Op element shape: [2] list shape: []"));
  const Output full = Push(g_.AddOp("EmptyTensorList", {AnyShape(), Int(1)}, kFloats), Float(1));
  EXPECT_THAT(ErrorOf(Push(full, Float(2))), HasSubstr("Tried to push item into a full list"));
  Node* const popped = g_.AddNode("TensorListPopBack", {Reserve(0), Scalars()}, kFloats);
  EXPECT_THAT(ErrorOf(popped->output(1)), HasSubstr("Trying to pop from an empty list."));
  const Output unknown = g_.AddOp("TensorListReserve", {AnyShape(), Int(2)}, kFloats);
  EXPECT_THAT(ErrorOf(g_.AddOp("TensorListStack", {unknown, AnyShape()}, kFloats)),
              HasSubstr("non-fully-defined element_shape"));
}

TEST_F(TensorListsTest, AMissingElementIsZerosOfTheShapeThatIsAskedFor) {
  const Output list = Set(g_.AddOp("TensorListReserve", {AnyShape(), Int(2)}, kFloats), 0, Float(4));
  const Output pair = Const(Tensor::Vector<int32_t>({2}));
  const auto values = RunAnew({g_.AddOp("TensorListGetItem", {list, Int(0), pair}, kFloats),
                               g_.AddOp("TensorListGetItem", {list, Int(1), pair}, kFloats),
                               g_.AddOp("TensorListGetItem", {list, Int(1), AnyShape()}, kFloats)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(4));  // it is there, whatever is asked for
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(0, 0));
  EXPECT_EQ((*values)[2].shape(), Shape());
}

TEST_F(TensorListsTest, ListsLieInEachOtherToALimit) {
  const AttrMap lists = {{"element_dtype", D::kVariant}};
  Output list = Reserve(1);
  for (int i = 0; i < 99; ++i) list = Push(g_.AddOp("EmptyTensorList", {AnyShape(), Int(-1)}, lists), list);
  const Output too_deep = Push(g_.AddOp("EmptyTensorList", {AnyShape(), Int(-1)}, lists), list);
  EXPECT_EQ(RunAnew({Length(list)}).value()[0].scalar<int32_t>(), 1);
  EXPECT_THAT(ErrorOf(too_deep), HasSubstr("lie in each other more than 100 deep"));
}

TEST_F(TensorListsTest, AnOptionalHoldsTensorsOrNone) {
  const AttrMap attrs = {{"output_types", std::vector<DType>{D::kFloat32}},
                         {"output_shapes", std::vector<PartialShape>{Shape()}}};
  const Output some = g_.AddOp("OptionalFromValue", {std::vector<Output>{Float(7)}});
  const Output none = g_.AddOp("OptionalNone", {});
  const Output zero = g_.AddOp("OptionalGetValue", {g_.AddOp("ZerosLike", {some})}, attrs);
  const auto values =
      RunAnew({g_.AddOp("OptionalGetValue", {some}, attrs), g_.AddOp("OptionalHasValue", {some}),
               g_.AddOp("OptionalHasValue", {none}), zero});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 7);
  EXPECT_TRUE((*values)[1].scalar<bool>());
  EXPECT_FALSE((*values)[2].scalar<bool>());
  EXPECT_EQ((*values)[3].scalar<float>(), 0);
  EXPECT_THAT(ErrorOf(g_.AddOp("OptionalGetValue", {none}, attrs)), HasSubstr("does not have a value"));
}

// A list that is pushed into itself again and again: 2^60 lists, were each place of one a list of its own.
class DoubledListTest : public TensorListsTest {
 protected:
  static constexpr int kTimes = 60;

  Output Doubled(int times = kTimes) {
    Output list = g_.AddOp("EmptyTensorList", {Scalars(), AnyShape()}, {{"element_dtype", D::kVariant}});
    for (int i = 0; i < times; ++i) list = Push(list, list);
    return list;
  }
  Output DoubledOptional() {
    Output value = Doubled(0);
    for (int i = 0; i < 40; ++i) {
      value = g_.AddOp("OptionalFromValue", {std::vector<Output>{value, value}});
    }
    return value;
  }
  // Of the list, and of the last of its elements, of that one's...
  std::vector<int32_t> Lengths(Output list) {
    std::vector<TensorRef> fetches;
    for (int i = 0; i < kTimes; ++i) {
      fetches.emplace_back(Length(list));
      list = Last(list);
    }
    const auto values = RunAnew(fetches);
    EXPECT_TRUE(values.ok()) << values.status();
    std::vector<int32_t> lengths;
    if (values.ok()) {
      for (const Tensor& value : *values) lengths.push_back(value.scalar<int32_t>());
    }
    return lengths;
  }
  Output Last(Output list) {
    Node* const popped = g_.AddNode("TensorListPopBack", {list, Scalars()}, {{"element_dtype", D::kVariant}});
    return Output(popped, 1);
  }
  std::vector<int32_t> CountDown() const {
    std::vector<int32_t> numbers;
    for (int i = kTimes; i > 0; --i) numbers.push_back(i);
    return numbers;
  }
};

TEST_F(DoubledListTest, HasZeros) { EXPECT_EQ(Lengths(g_.AddOp("ZerosLike", {Doubled()})), CountDown()); }

TEST_F(DoubledListTest, IsAddedToItself) {
  const Output list = Doubled();
  EXPECT_EQ(Lengths(g_.AddOp("AddN", {std::vector<Output>{list, list}})), CountDown());
}

TEST_F(DoubledListTest, IsAddedToAnother) {
  EXPECT_EQ(Lengths(g_.AddOp("AddN", {std::vector<Output>{Doubled(), Doubled()}})), CountDown());
}

// They ask whether a value refers to anybody.
TEST_F(DoubledListTest, IsHeldByAStackAndAnArray) {
  const Output pushed =
      g_.AddOp("StackPushV2", {g_.AddOp("StackV2", {Int(-1)}, {{"elem_type", D::kVariant}}), Doubled()});
  Node* const array = g_.AddNode("TensorArrayV3", {Int(1)}, {{"dtype", D::kVariant}});
  const Output flow =
      g_.AddOp("TensorArrayWriteV3", {array->output(0), Int(0), DoubledOptional(), array->output(1)});
  const auto values = RunAnew({Length(pushed), flow});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<int32_t>(), kTimes);
}

// Optionals lie in one another too.
TEST_F(DoubledListTest, OfOptionalsHasZeros) {
  const auto values = RunAnew({g_.AddOp("OptionalHasValue", {g_.AddOp("ZerosLike", {DoubledOptional()})})});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_TRUE((*values)[0].scalar<bool>());
}

}  // namespace
}  // namespace weir
