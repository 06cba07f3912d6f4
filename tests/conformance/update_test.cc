// Runs every check on every call that changes variables.
#include <algorithm>
#include <cctype>

#include "gtest/gtest.h"
#include "tests/conformance/suite.h"
#include "tests/conformance/update_checks.h"

namespace weir::conformance {
namespace {

const std::vector<OpCase>& Cases() {
  static const auto* const cases = new std::vector<OpCase>(Suite::Whole().updates());
  return *cases;
}

const UpdateChecks& Checks() {
  static const auto* const checks = new UpdateChecks;
  return *checks;
}

// "ResourceScatterAdd_float_17": op, dtype of the first variable, position in the table.
std::string NameOf(size_t index) {
  const OpCase& test = Cases()[index];
  return test.op + "_" + std::string(DTypeName(test.inputs[0].tensors[0].dtype())) + "_" +
         std::to_string(index);
}

class Update : public testing::TestWithParam<size_t> {
 protected:
  const OpCase& test() const { return Cases()[GetParam()]; }
};

TEST_P(Update, AgreesWithReference) {
  const absl::Status status = Checks().CheckAgainstReference(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Update, AgreesOnFakeGpu) {
  const absl::Status status = Checks().CheckFakeGpu(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Update, SurvivesSerialization) {
  const absl::Status status = Checks().CheckSerialized(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Update, KeepsWhatReadersHold) {
  const absl::Status status = Checks().CheckReaders(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Update, ShapesAreInferred) {
  const absl::Status status = Checks().CheckShapes(test());
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Ops, Update, testing::Range<size_t>(0, Cases().size()),
                         [](const testing::TestParamInfo<size_t>& info) { return NameOf(info.param); });

}  // namespace
}  // namespace weir::conformance
