// Training steps of models on a GPU: a line of JSON for each, as tests/benchmarks has them. In a rehearsal
// each is run once, with few examples, and its number means nothing.
#include <gtest/gtest.h>

#include "graph/types/dtype.h"
#include "kernels/cuda/test_cuda.h"
#include "session/runtime.h"
#include "tests/benchmarks/model_steps.h"

namespace weir::gpu_check {
namespace {

class BenchmarksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cuda_.WhyNot(1); !why.empty()) GTEST_SKIP() << why;
    // The log of calls costs time: a GPU is measured without it.
    if (is_real_) return;
    setenv("WEIR_BENCH_SECONDS", "0", /*replace=*/1);
  }
  RuntimeOptions Gpu(bool cuda_graphs = true) {
    return {
        .num_gpus = 1, .cuda_graphs = cuda_graphs, .cuda = is_real_ ? &TheCudaBackend() : &cuda_.backend()};
  }
  int Batch(int batch) const { return is_real_ ? batch : 2; }

  const bool is_real_ = ChosenTestGpus() == TestGpus::kReal;
  TestCuda cuda_;
};

TEST_F(BenchmarksTest, Mlp) { bench::MeasureMlpStep(Gpu(), Batch(32)); }
TEST_F(BenchmarksTest, MlpKernelByKernel) {
  bench::MeasureMlpStep(Gpu(false), Batch(32), "_kernel_by_kernel");
}

TEST_F(BenchmarksTest, ResNet20Float) { bench::MeasureResNet20Step(Gpu(), Batch(128), DType::kFloat32); }
TEST_F(BenchmarksTest, ResNet20FloatKernelByKernel) {
  bench::MeasureResNet20Step(Gpu(false), Batch(128), DType::kFloat32, "_kernel_by_kernel");
}
TEST_F(BenchmarksTest, ResNet20Bfloat16) { bench::MeasureResNet20Step(Gpu(), Batch(128), DType::kBfloat16); }

}  // namespace
}  // namespace weir::gpu_check
