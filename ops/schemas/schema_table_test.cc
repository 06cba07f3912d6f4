#include "ops/schemas/schema_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kText[] =
    "op First stateful commutative\n"
    "in x: T\n"
    "out y: T\n"
    "attr T: {float, double}\n"
    "op Second\n"
    "in ref: float &\n"
    "op Handle\n"
    "in handle: string &\n"
    "out size: int32\n"
    "op Third\n"
    "nonsense\n"
    "op Empty\n";

OpDef Named(const char* name) {
  OpDef def;
  def.name = name;
  return def;
}

TEST(SchemaTableTest, CompletesAnOp) {
  const SchemaTable table = SchemaTable::Parse(kText).value();
  OpDef first = Named("First"), empty = Named("Empty");
  ASSERT_TRUE(table.Complete(first).ok());
  EXPECT_THAT(first.inputs, ElementsAre("x: T"));
  EXPECT_THAT(first.outputs, ElementsAre("y: T"));
  EXPECT_THAT(first.attrs, ElementsAre("T: {float, double}"));
  EXPECT_TRUE(first.is_stateful);
  EXPECT_TRUE(first.is_commutative);
  ASSERT_TRUE(table.Complete(empty).ok());
  EXPECT_TRUE(empty.inputs.empty() && empty.attrs.empty() && !empty.is_stateful);
}

TEST(SchemaTableTest, AReferenceToAStringIsAHandleAndItsOpHasAnEffect) {
  const SchemaTable table = SchemaTable::Parse(kText).value();
  OpDef handle = Named("Handle");
  ASSERT_TRUE(table.Complete(handle).ok());
  EXPECT_THAT(handle.inputs, ElementsAre("handle: string"));
  EXPECT_TRUE(handle.is_stateful);
}

TEST(SchemaTableTest, RefusesWhatItCannotComplete) {
  const SchemaTable table = SchemaTable::Parse(kText).value();
  OpDef unknown = Named("Fourth"), ref = Named("Second"), bad = Named("Third"), twice = Named("First");
  twice.inputs = {"x: T"};
  EXPECT_EQ(table.Complete(unknown).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(table.Complete(ref).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(table.Complete(bad).message()), HasSubstr("'nonsense'"));
  EXPECT_THAT(std::string(table.Complete(twice).message()), HasSubstr("repeats its schema"));
}

TEST(SchemaTableTest, RefusesTextThatIsNoTable) {
  EXPECT_FALSE(SchemaTable::Parse("in x: T\n").ok());
  EXPECT_FALSE(SchemaTable::Parse("op A\nop A\n").ok());
}

TEST(SchemaTableTest, HoldsTensorFlowsOps) {
  EXPECT_TRUE(SchemaTable::TensorFlow().Contains("MatMul"));
  EXPECT_TRUE(SchemaTable::TensorFlow().Contains("ZerosLike"));
  EXPECT_FALSE(SchemaTable::TensorFlow().Contains("Mat"));
}

}  // namespace
}  // namespace weir
