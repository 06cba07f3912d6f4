// What tests of sessions on CUDA devices begin with: runtimes whose GPUs are those of the recording stand-in,
// or this machine's where the environment says so (kernels/cuda/test_cuda.h), and what was written down.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/test_cuda.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {

// A runtime with its session, on the CPU or on GPUs.
struct Place {
  explicit Place(const RuntimeOptions& runtime_options, const SessionOptions& session_options = {})
      : runtime(Runtime::Create(runtime_options).value()),
        worker(*runtime, runtime->task()),
        g(runtime->ops()),
        options(session_options) {}

  Session& session() {
    EXPECT_TRUE(g.ok()) << g.status();
    if (!made) made = Session::Create(g.graph(), {&worker}, runtime->kernels(), options).value();
    return *made;
  }

  std::unique_ptr<Runtime> runtime;
  LocalWorker worker;
  GraphBuilder g;
  const SessionOptions options;
  std::unique_ptr<Session> made;
};

// The largest difference, by the largest number of the expected ones.
inline double Difference(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.shape(), expected.shape());
  if (found.shape() != expected.shape()) return 1e300;
  double most = 0, scale = 1e-30;
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    most = std::max<double>(most, std::abs(found.flat<float>()[i] - expected.flat<float>()[i]));
    scale = std::max<double>(scale, std::abs(expected.flat<float>()[i]));
  }
  return most / scale;
}

class CudaSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cuda_.WhyNot(1); !why.empty()) GTEST_SKIP() << why;
  }

  RuntimeOptions Gpus(int count) { return {.num_gpus = count, .num_threads = 2, .cuda = &cuda_.backend()}; }

  struct Counts {
    int64_t in = 0, out = 0, waits = 0, allocations = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
    friend std::ostream& operator<<(std::ostream& to, const Counts& counts) {
      return to << counts.in << " in, " << counts.out << " out, " << counts.waits << " waits, "
                << counts.allocations << " allocations";
    }
  };
  // Since the log was cleared. A wait is a thread that stands still until a GPU has come so far.
  Counts CountsOfLog() const {
    Counts counts;
    for (const std::string& line : cuda_.log()) {
      counts.in += absl::StartsWith(line, "cudaMemcpyAsync to_device");
      counts.out += absl::StartsWith(line, "cudaMemcpyAsync to_host");
      counts.waits +=
          absl::StartsWith(line, "cudaEventSynchronize") || absl::StartsWith(line, "cudaStreamSynchronize");
      counts.allocations += absl::StartsWith(line, "cudaMalloc") || absl::StartsWith(line, "cudaFree") ||
                            absl::StartsWith(line, "cudaHostAlloc");
    }
    return counts;
  }
  std::vector<std::string> Launches() const { return cuda_.launches(); }

  TestCuda cuda_;
};

}  // namespace weir
