// Graphs that nobody thought of, with nodes on a CPU and on a GPU by chance: what the interpreter gives is
// expected, as tests/random_graphs does it.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/test_cuda.h"
#include "tests/random_graphs/check.h"
#include "tests/random_graphs/generator.h"
#include "tests/random_graphs/print.h"

namespace weir::gpu_check {
namespace {

constexpr uint64_t kGraphsPerTest = 20, kTests = 50;

// Never destroyed, as its devices are.
TestCuda& Cuda() {
  static auto& cuda = *new TestCuda;
  return cuda;
}
random_graphs::Runner& Runner() {
  static auto& runner = *new random_graphs::Runner(&Cuda().backend());
  return runner;
}

class RandomGraphsTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphsTest, GiveWhatTheInterpreterGives) {
  if (const std::string why = Cuda().WhyNot(1); !why.empty()) GTEST_SKIP() << why;
  const int64_t launched_before = Cuda().num_calls("cudaLaunchKernel");
  for (uint64_t i = 0; i < kGraphsPerTest; ++i) {
    const uint64_t seed = GetParam() * kGraphsPerTest + i;
    const auto graph_case = random_graphs::Generate(seed);
    ASSERT_TRUE(graph_case.ok()) << graph_case.status();
    const random_graphs::Finding finding =
        random_graphs::Check(*graph_case, {random_graphs::Way::kGpus}, seed, Runner());
    EXPECT_FALSE(finding) << "seed " << seed << ": " << finding.message << "\n"
                          << random_graphs::PrintCase(*graph_case);
    if (IsTestGpuLost()) return;
  }
  EXPECT_GT(Cuda().num_calls("cudaLaunchKernel"), launched_before) << "nothing was computed on the GPU";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphsTest, ::testing::Range<uint64_t>(0, kTests));

}  // namespace
}  // namespace weir::gpu_check
