#include "distributed/command/ops_command.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string OutputOf(const std::vector<std::string>& args) {
  ::testing::internal::CaptureStdout();
  const absl::StatusOr<int> code = RunOps(args);
  const std::string output = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(code.value_or(-1), 0) << code.status();
  return output;
}

std::string ErrorOf(const std::vector<std::string>& args) {
  ::testing::internal::CaptureStdout();
  const absl::StatusOr<int> code = RunOps(args);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  return std::string(code.status().message());
}

TEST(OpsCommand, ListsWhatMatches) {
  EXPECT_THAT(OutputOf({}), AllOf(HasSubstr("\n  MatMul "), HasSubstr("\n  FIFOQueueV2 ")));
  EXPECT_THAT(OutputOf({"*Queue*V2"}), AllOf(HasSubstr("FIFOQueueV2"), Not(HasSubstr("MatMul"))));
}

TEST(OpsCommand, ShowsTheSchemaOfOne) {
  const std::string output = OutputOf({"MatMul"});
  EXPECT_THAT(output, HasSubstr("MatMul(a: T, b: T) -> (product: T)\n"));
  EXPECT_THAT(output, HasSubstr("\n  transpose_a: bool = false\n"));
  EXPECT_THAT(output, Not(HasSubstr("BatchMatMul")));
}

TEST(OpsCommand, KnowsWhatGraphsOfTensorFlowHave) {
  EXPECT_THAT(OutputOf({"While"}), HasSubstr("While calls functions of its graph."));
  EXPECT_THAT(OutputOf({"ApplyAdam"}),
              HasSubstr("becomes another op when a graph is read:\nResourceApplyAdam("));
  EXPECT_THAT(OutputOf({"FIFOQueue"}), HasSubstr("\nFIFOQueueV2("));
}

TEST(OpsCommand, MistakesAreNamed) {
  EXPECT_THAT(ErrorOf({"MatMull"}), AllOf(HasSubstr("weir ops: "), HasSubstr("MatMul")));
  EXPECT_THAT(ErrorOf({"MatMul", "Add"}), HasSubstr("one pattern at a time, not also 'Add'"));
}

}  // namespace
}  // namespace weir
