// What somebody with a GPU runs (tools/gpu_check): the tests of CUDA devices on it, kernels beside the CPU's,
// load, errors, and models measured beside PyTorch.
//
//   gpu_check [--rehearsal] [flags of check.h]
//   WEIR_TEST_GPU=1 gpu_check --gtest_filter=...      tests without parts
//
// WEIR_GPU_CHECK_PEER in the environment is the path of tests/benchmarks/peers/torch_steps.py.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/version.h"
#include "gtest/gtest.h"
#include "kernels/cuda/test_cuda.h"
#include "tests/gpu/check.h"
#include "tests/gpu/gtest_part.h"

namespace weir::gpu_check {
namespace {

// Those that end with errors, some of them with a lost device: they are a part of their own.
constexpr char kErrors[] = "*Lost*:*AClassThatDoesNotExist*:*FtrlRefuses*:*WrongDataPreventUpdates*";

Part Tests(const std::string& name, absl::Duration limit, const std::string& filter) {
  const GtestPart tests{.filter = filter, .is_lost = IsTestGpuLost, .left_out_text = kOnlyOnTheStandIn};
  return {
      .name = name, .limit = limit, .run = [tests](Progress& progress, const std::vector<std::string>& done) {
        return RunGtestPart(tests, progress, done);
      }};
}

// Every line that the script prints is one that it measured.
int RunPyTorch(Progress& progress, bool is_rehearsal) {
  const std::string test = "PyTorch";
  progress.Plan(test);
  progress.Start(test);
  const auto skip = [&](absl::string_view why) {
    progress.End(test, Outcome::kSkipped, why);
    return 0;
  };
  const char* const script = std::getenv("WEIR_GPU_CHECK_PEER");
  if (script == nullptr || access(script, R_OK) != 0) return skip("WEIR_GPU_CHECK_PEER names no script");
  if (std::system("python3 -c 'import torch'") != 0) return skip("python3 has no PyTorch here");
  if (!is_rehearsal &&
      std::system("python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'")) {
    return skip("PyTorch sees no GPU here");
  }
  const std::string command = absl::StrCat(
      "python3 '", script, "'", is_rehearsal ? " --device=cpu --rehearsal" : " --device=cuda --minutes=5");
  if (std::system(command.c_str()) == 0) {
    progress.End(test, Outcome::kPassed);
  } else {
    skip("the script did not come to its end: pytorch.log says why");
  }
  return 0;
}

std::vector<Part> Parts(bool is_rehearsal) {
  const std::string no_errors = absl::StrCat("-", kErrors);
  return {
      Tests("doctor", absl::Minutes(1), "DoctorTest.*"),
      Tests("kernels", absl::Minutes(6),
            "Ops/*:LargeInputsTest.*:OpsTest.*:CudaMovesTest.*:CudaRowsTest.*:CudaLayersTest.*-*Network*"),
      Tests("training", absl::Minutes(4),
            absl::StrCat(
                "Optimizers/*:MlpStepTest.*:CudaTrainingTest.*:CudaLayersTest.*Network*:CudaGraphsTest.*:"
                "NotRecordedTest.*:Calls/*:CudaSessionTest.*:CudaPlacementTest.*:"
                "ChiefWithoutGpusTest.*:Devices/*",
                no_errors)),
      Tests("errors", absl::Minutes(3), absl::StrCat("MemoryTest.*:DataErrorsTest.*:", kErrors)),
      Tests("collectives", absl::Minutes(2), "CollectivesTest.*"),
      Tests("benchmarks", absl::Minutes(4), "BenchmarksTest.*"),
      {.name = "pytorch",
       .limit = absl::Minutes(6),
       .limit_of_test = absl::Minutes(6),
       .run = [is_rehearsal](Progress& progress,
                             const std::vector<std::string>&) { return RunPyTorch(progress, is_rehearsal); }},
      Tests("graphs", absl::Minutes(3), "Seeds/*"),
      Tests("stress", absl::Minutes(3), "StressTest.*"),
  };
}

int Main(int argc, char** argv) {
  std::vector<std::string> flags(argv + 1, argv + argc);
  const auto rehearsal = std::find(flags.begin(), flags.end(), "--rehearsal");
  const bool is_rehearsal = rehearsal != flags.end();
  if (is_rehearsal) flags.erase(rehearsal);
  setenv("WEIR_TEST_GPU", is_rehearsal ? "rehearsal" : "1", /*replace=*/1);
  return RunCheck(
      {.name = "gpu_check",
       .usage = "  --rehearsal        without a GPU, on the stand-in of the tests: says nothing of GPUs\n",
       .parts = Parts(is_rehearsal),
       .facts = {{"weir", WEIR_VERSION}, {"on", is_rehearsal ? "a stand-in, for rehearsal" : "GPUs"}},
       .compares = !is_rehearsal},
      flags);
}

}  // namespace
}  // namespace weir::gpu_check

int main(int argc, char** argv) {
  if (weir::gpu_check::InitializeTests(argc, argv)) return RUN_ALL_TESTS();
  return weir::gpu_check::Main(argc, argv);
}
