// The calls of the conformance suite on a GPU, each a step of its own: what the CPU gives is expected, within
// the suite's errors. Without a GPU, the expectations are computed all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tests/conformance/comparison.h"
#include "tests/conformance/suite.h"
#include "tests/gpu/both_devices.h"

namespace weir::gpu_check {
namespace {

using conformance::OpCase;
using conformance::Suite;

// Sums come in another order, and functions such as exp are CUDA's own.
double ToleranceOf(const OpCase& test, DType dtype) {
  return 4 * std::max(test.tolerance, conformance::ToleranceOf(dtype));
}

std::string NameOf(const OpCase& test, size_t index) {
  std::string name = test.op;
  if (!test.inputs.empty() && !test.inputs[0].tensors.empty()) {
    name += absl::StrCat("_", DTypeName(test.inputs[0].tensors[0].dtype()));
  }
  if (!test.label.empty()) name += absl::StrCat("_", test.label);
  name += absl::StrCat("_", index);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class KernelsTest : public ::testing::TestWithParam<size_t> {
 protected:
  static void Check(const OpCase& test) {
    const absl::StatusOr<BothResults> results = RunOnBoth(test);
    if (absl::IsNotFound(results.status())) GTEST_SKIP() << results.status().message();
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->gpu.size(), results->cpu.size());
    for (size_t i = 0; i < results->cpu.size(); ++i) {
      const Tensor& expected = results->cpu[i];
      const absl::Status status = conformance::Compare(absl::StrCat("result ", i), results->gpu[i], expected,
                                                       ToleranceOf(test, expected.dtype()));
      EXPECT_TRUE(status.ok()) << status;
    }
  }
};

const std::vector<OpCase>& Calls() {
  static const auto& calls = *new std::vector<OpCase>(CallsForGpus(Suite::Whole().calls()));
  return calls;
}
const std::vector<OpCase>& Updates() {
  static const auto& updates = *new std::vector<OpCase>(CallsForGpus(Suite::Whole().updates()));
  return updates;
}

TEST_P(KernelsTest, GivesWhatTheCpuGives) { Check(Calls()[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Ops, KernelsTest, ::testing::Range<size_t>(0, Calls().size()),
                         [](const auto& info) { return NameOf(Calls()[info.param], info.param); });

class UpdatesTest : public KernelsTest {};

TEST_P(UpdatesTest, GivesWhatTheCpuGives) { Check(Updates()[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Ops, UpdatesTest, ::testing::Range<size_t>(0, Updates().size()),
                         [](const auto& info) { return NameOf(Updates()[info.param], info.param); });

// The suite has calls of each of them; a call that is none of a GPU's says nothing.
TEST(Kernels, EveryOpOfGpusIsCalled) {
  std::set<std::string> called;
  for (const std::vector<OpCase>* const cases : {&Calls(), &Updates()}) {
    for (const OpCase& test : *cases) called.insert(test.op);
  }
  std::vector<std::string> missing;
  for (const std::string& op : NamesOfCudaOps()) {
    const conformance::OpRecord* const record = Suite::Whole().Find(op);
    if (called.count(op) == 0 && record != nullptr && record->tested_elsewhere().empty())
      missing.push_back(op);
  }
  EXPECT_TRUE(missing.empty()) << missing.front();
}

}  // namespace
}  // namespace weir::gpu_check
