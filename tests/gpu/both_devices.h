// Calls of ops as steps of their own, on the CPU and on the GPU under test (kernels/cuda/test_cuda.h).
//
// Precondition of all functions: one thread. A process has one GPU device for them, which is never destroyed.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "tests/conformance/op_case.h"

namespace weir::gpu_check {

// Of the outputs, then the new values of variables.
struct BothResults {
  std::vector<Tensor> cpu, gpu;
};

// NotFound, in one sentence, where there is no GPU; the CPU has computed its results by then. Internal when
// the call was not computed by the GPU.
absl::StatusOr<BothResults> RunOnBoth(const conformance::OpCase& test);

// Those of ops that compute on GPUs, as far as their dtypes do.
std::vector<conformance::OpCase> CallsForGpus(const std::vector<conformance::OpCase>& calls);

}  // namespace weir::gpu_check
