// What tests of CUDA devices run on: the recording stand-in, each on one of its own; or, where the
// environment says so, this machine's GPUs, whose calls are written down (test_logged_cuda.h).
//
//   WEIR_TEST_GPU=1 bazel-bin/session/cuda_training_test      on GPUs
//   WEIR_TEST_GPU=rehearsal ...                               as there, on one stand-in for the whole process
//
// A rehearsal needs no GPU: it shows that what is asked of a GPU can be asked, and says nothing of GPUs.
// Tests that say what CUDA does, as the stand-in lets them, are for the stand-in alone. Thread safety: all
// methods.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/test_cuda_backend.h"
#include "kernels/cuda/test_logged_cuda.h"

namespace weir {

// Why a test is skipped on GPUs: it has CUDA fail, or looks at what has not happened yet. tools/gpu_check
// does not count these.
inline constexpr char kOnlyOnTheStandIn[] = "only the stand-in does what this test asks for";

// What the environment asks for.
enum class TestGpus { kStandIn, kRehearsal, kReal };
TestGpus ChosenTestGpus();

// Whether a device of this process is lost: no test on GPUs makes sense any more. False on stand-ins of a
// test's own.
bool IsTestGpuLost();

class TestCuda {
 public:
  static constexpr int kNumStandIns = 2;  // devices that the stand-in has

  TestCuda();

  const CudaBackend& backend() const { return logged_ != nullptr ? logged_->backend() : backend_->backend(); }
  bool is_stand_in() const { return logged_ == nullptr; }
  // One sentence where there are not so many GPUs; empty where there are.
  std::string WhyNot(int num_gpus) const;

  // Since the log was cleared, as RecordingCudaApi has them.
  std::vector<std::string> log() const;
  void ClearLog();
  // The names of the kernels in it.
  std::vector<std::string> launches() const;
  // Calls of this name since this was made.
  int64_t num_calls(const std::string& name) const;
  // Everything that was enqueued has happened after this.
  void RunAll();
  // As an illegal address does it. On GPUs, and in a rehearsal, that is the end of all tests of this process.
  void LoseDevice(int device);

  // What a test says to the stand-in, and sees there. Precondition: is_stand_in().
  RecordingCudaApi& stand_in() const { return *own_; }

 private:
  std::unique_ptr<RecordingCudaApi> own_;
  std::unique_ptr<TestCudaBackend> backend_;
  LoggedCuda* logged_ = nullptr;  // of the process
  std::map<std::string, int64_t> calls_before_;
};

}  // namespace weir
