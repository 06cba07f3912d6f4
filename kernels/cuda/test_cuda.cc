#include "kernels/cuda/test_cuda.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/gpu_report.h"

namespace weir {
namespace {

constexpr char kVariable[] = "WEIR_TEST_GPU";

RecordingCudaApi& RehearsalStandIn() {
  static auto& api = *new RecordingCudaApi({.num_devices = TestCuda::kNumStandIns});
  return api;
}

// Null where there is no CUDA in this build. Nothing of it is ever destroyed, as nothing of CUDA is.
LoggedCuda* LoggedOfProcess(TestGpus gpus) {
  static LoggedCuda* const logged = [gpus]() -> LoggedCuda* {
    if (gpus == TestGpus::kRehearsal) {
      return new LoggedCuda((new TestCudaBackend(RehearsalStandIn()))->backend());
    }
    return TheCudaBackend().api == nullptr ? nullptr : new LoggedCuda(TheCudaBackend());
  }();
  return logged;
}

}  // namespace

TestGpus ChosenTestGpus() {
  const char* const text = std::getenv(kVariable);
  const absl::string_view chosen = text == nullptr ? "" : text;
  if (chosen.empty()) return TestGpus::kStandIn;
  if (chosen == "1") return TestGpus::kReal;
  if (chosen == "rehearsal") return TestGpus::kRehearsal;
  std::fprintf(stderr, "%s is '%s': it must be 1 or rehearsal\n", kVariable, text);
  std::abort();
}

bool IsTestGpuLost() {
  const TestGpus gpus = ChosenTestGpus();
  if (gpus == TestGpus::kStandIn) return false;
  LoggedCuda* const logged = LoggedOfProcess(gpus);
  if (logged == nullptr) return false;
  const absl::StatusOr<int> count = logged->NumDevices();
  // An error of the first device only, where a test has not used the others: asking makes a context of them.
  return SaysDeviceLost(count.status()) ||
         (count.ok() && *count > 0 && SaysDeviceLost(logged->Memory(0).status()));
}

TestCuda::TestCuda() {
  const TestGpus gpus = ChosenTestGpus();
  if (gpus != TestGpus::kStandIn) logged_ = LoggedOfProcess(gpus);
  if (logged_ != nullptr) {
    calls_before_ = logged_->num_calls();
    logged_->ClearLog();
    return;
  }
  // Of a build without CUDA, too, where nothing will be asked of it (WhyNot).
  own_ = std::make_unique<RecordingCudaApi>(RecordingCudaApi::Options{.num_devices = kNumStandIns});
  backend_ = std::make_unique<TestCudaBackend>(*own_);
}

std::string TestCuda::WhyNot(int num_gpus) const {
  if (logged_ == nullptr) {
    return ChosenTestGpus() == TestGpus::kStandIn ? "" : "this program was built without CUDA";
  }
  CudaApi& api = *backend().api;
  const absl::StatusOr<int> found = api.NumDevices();
  if (!found.ok()) return WhyNoGpu(api, found.status());
  return *found >= num_gpus ? "" : absl::StrCat("it takes ", num_gpus, " GPUs, and there is ", *found);
}

std::vector<std::string> TestCuda::log() const { return logged_ != nullptr ? logged_->log() : own_->log(); }

void TestCuda::ClearLog() {
  if (logged_ != nullptr) return logged_->ClearLog();
  own_->ClearLog();
}

std::vector<std::string> TestCuda::launches() const {
  std::vector<std::string> names;
  for (const std::string& line : log()) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words[0] == "cudaLaunchKernel") names.emplace_back(words[1]);
  }
  return names;
}

int64_t TestCuda::num_calls(const std::string& name) const {
  if (logged_ == nullptr) return own_->num_calls(name);
  const std::map<std::string, int64_t> calls = logged_->num_calls();
  const auto now = calls.find(name), before = calls_before_.find(name);
  return (now == calls.end() ? 0 : now->second) - (before == calls_before_.end() ? 0 : before->second);
}

void TestCuda::RunAll() {
  if (logged_ != nullptr) return logged_->Synchronize();
  own_->RunAll();
}

void TestCuda::LoseDevice(int device) {
  if (logged_ == nullptr) return own_->LoseDevice(device, kCudaIllegalAddress);
  if (ChosenTestGpus() == TestGpus::kRehearsal) {
    return RehearsalStandIn().LoseDevice(device, kCudaIllegalAddress);
  }
  logged_->LoseDevice(device);
}

}  // namespace weir
