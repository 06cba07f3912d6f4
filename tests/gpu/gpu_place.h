// What checks of GPUs compute on: a runtime with the GPUs under test (kernels/cuda/test_cuda.h), or the
// reason why it has none.
//
// Borrowed by its sessions. Thread safety: that of what it gives out.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/test_cuda.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir::gpu_check {

class GpuPlace {
 public:
  // `options`: without its GPUs, of which there are `num_gpus`. Aborts where the options are wrong.
  explicit GpuPlace(RuntimeOptions options, int num_gpus = 1)
      : why_not_(num_gpus == 0 ? "" : cuda_.WhyNot(num_gpus)) {
    options.num_gpus = why_not_.empty() ? num_gpus : 0;
    options.cuda = &cuda_.backend();
    runtime_ = Runtime::Create(options).value();
    worker_ = std::make_unique<LocalWorker>(*runtime_, runtime_->task());
  }

  // One sentence where there is no such GPU, and the CPU alone; empty where there is.
  const std::string& why_not() const { return why_not_; }
  TestCuda& cuda() { return cuda_; }
  Runtime& runtime() { return *runtime_; }
  Device& gpu(int number = 0) {
    return *runtime_->FindDevice(
        DeviceName::Parse(absl::StrCat("/job:localhost/replica:0/task:0/device:GPU:", number)).value());
  }

  std::unique_ptr<Session> NewSession(Graph& graph, const SessionOptions& options = {}) {
    return Session::Create(graph, {worker_.get()}, runtime_->kernels(), options).value();
  }

 private:
  TestCuda cuda_;
  const std::string why_not_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LocalWorker> worker_;
};

}  // namespace weir::gpu_check
