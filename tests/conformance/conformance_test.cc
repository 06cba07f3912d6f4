// Runs every check on every case.
#include <algorithm>
#include <cctype>
#include <memory>

#include "gtest/gtest.h"
#include "tests/conformance/op_case.h"
#include "tests/conformance/op_checks.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

const std::vector<OpCase>& Cases() {
  static const auto* const cases = new std::vector<OpCase>(Suite::Whole().calls());
  return *cases;
}

const OpChecks& Checks() {
  static const auto* const checks = new OpChecks;
  return *checks;
}

// "Sum_float_17": op, dtype of the first input, position in the table.
std::string NameOf(size_t index) {
  const OpCase& test = Cases()[index];
  std::string name = test.op;
  if (!test.inputs.empty() && !test.inputs[0].tensors.empty()) {
    name += "_" + std::string(DTypeName(test.inputs[0].tensors[0].dtype()));
  }
  if (!test.label.empty()) name += "_" + test.label;
  name += "_" + std::to_string(index);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class Conformance : public testing::TestWithParam<size_t> {
 protected:
  const OpCase& test() const { return Cases()[GetParam()]; }
};

TEST_P(Conformance, AgreesWithReference) {
  const absl::Status status = Checks().CheckAgainstReference(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Conformance, WorksInPlace) {
  const absl::Status status = Checks().CheckInPlace(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Conformance, InputsMayBeOneTensor) {
  const absl::Status status = Checks().CheckAliased(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Conformance, DevicesAgree) {
  const absl::Status status = Checks().CheckOtherDevices(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Conformance, ShapesAreInferred) {
  const absl::Status status = Checks().CheckShapes(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Conformance, GradientIsRight) {
  const absl::Status status = Checks().CheckGradient(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Conformance, GradientNeedsNoKnownShapes) {
  const absl::Status status = Checks().CheckGradientOfUnknown(test());
  EXPECT_TRUE(status.ok()) << status;
}
TEST_P(Conformance, SurvivesSerialization) {
  const absl::Status status = Checks().CheckSerialized(test());
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, testing::Range<size_t>(0, Cases().size()),
                         [](const testing::TestParamInfo<size_t>& info) { return NameOf(info.param); });

}  // namespace
}  // namespace weir::conformance
