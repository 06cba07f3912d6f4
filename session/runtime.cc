#include "session/runtime.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/fake/fake_device.h"
#include "kernels/fake/fake_kernels.h"
#include "kernels/formats/file_size_signal.h"
#include "kernels/formats/standard_streams.h"
#include "kernels/system_limits.h"
#include "ops/register_ops.h"
#include "session/transfer_kernels.h"

namespace weir {
namespace {

// Debian compiles Abseil with its debug checks, so every lock, gRPC's too, is entered into one graph of the
// whole process to look for cycles. That is for a test that looks for them.
void StopLookingForDeadlocks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

// What a pool of threads does not understand it takes for "all cores".
absl::Status CheckThreadsOfEnvironment() {
  const char* const text = std::getenv("WEIR_NUM_THREADS");
  int num_threads = 0;
  if (text == nullptr || *text == '\0') return absl::OkStatus();
  if (absl::SimpleAtoi(text, &num_threads) && num_threads >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("WEIR_NUM_THREADS is '", text, "': it must be a number of threads, or 0 for all cores"));
}

using KernelsOfProgram = std::function<void(KernelRegistry& registry, absl::string_view device_type)>;

// What devices of type GPU are, here or on other tasks.
enum class Gpus { kFake, kCuda };

void AddHostKernels(KernelRegistry& kernels, absl::string_view type, const KernelsOfProgram& more) {
  RegisterCpuKernels(kernels, type);
  RegisterTransferKernels(kernels, type);
  if (more) more(kernels, type);
}

std::shared_ptr<const KernelRegistry> MakeKernels(Gpus gpus, const KernelsOfProgram& more,
                                                  const OpRegistry& ops) {
  auto kernels = std::make_shared<KernelRegistry>();
  AddHostKernels(*kernels, "CPU", more);
  if (gpus == Gpus::kFake) {
    AddHostKernels(*kernels, "GPU", more);
    ProtectFakeKernels(*kernels, ops);
  } else {
    KernelRegistry of_host;
    AddHostKernels(of_host, "GPU", more);
    RegisterCudaKernels(*kernels, of_host, ops);
  }
  return kernels;
}

// There are thousands of them, so those without kernels of the program's own are made once in a process. A
// task without GPUs knows the kernels of real ones: it may be the chief of workers that have some.
std::shared_ptr<const KernelRegistry> KernelsOf(const RuntimeOptions& options) {
  const Gpus gpus = options.num_fake_gpus > 0 ? Gpus::kFake : Gpus::kCuda;
  if (options.register_kernels) {
    return MakeKernels(gpus, options.register_kernels, options.ops != nullptr ? *options.ops : StandardOps());
  }
  using Kernels = std::shared_ptr<const KernelRegistry>;
  if (gpus == Gpus::kCuda) {
    static const Kernels& cuda = *new Kernels(MakeKernels(Gpus::kCuda, nullptr, StandardOps()));
    return cuda;
  }
  static const Kernels& fake = *new Kernels(MakeKernels(Gpus::kFake, nullptr, StandardOps()));
  return fake;
}

}  // namespace

Runtime::Runtime(const RuntimeOptions& options)
    : environment_(*options.environment),
      ops_(options.ops != nullptr ? options.ops : &StandardOps()),
      kernels_(KernelsOf(options)),
      threads_(options.num_threads),
      task_({.job = options.job, .replica = 0, .task = options.task}),
      overlap_(options.overlap),
      cuda_graphs_(options.cuda_graphs) {}

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Create(const RuntimeOptions& options) {
  if (options.num_cpus < 1 || options.num_cpus > kMaxDevices || options.num_fake_gpus < 0 ||
      options.num_fake_gpus > kMaxDevices) {
    return absl::InvalidArgumentError(absl::StrCat("a runtime has 1 to ", kMaxDevices,
                                                   " CPU devices and 0 to ", kMaxDevices, " fake GPUs, got ",
                                                   options.num_cpus, " and ", options.num_fake_gpus));
  }
  if (options.num_gpus < 0 || options.num_gpus > kMaxDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("a runtime has 0 to ", kMaxDevices, " GPUs, got ", options.num_gpus));
  }
  if (options.num_gpus > 0 && options.num_fake_gpus > 0) {
    return absl::InvalidArgumentError(absl::StrCat("a runtime has GPUs or fake ones, not both: num_gpus is ",
                                                   options.num_gpus, " and num_fake_gpus is ",
                                                   options.num_fake_gpus));
  }
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a runtime has 1 to ", kMaxThreads, " threads, or 0 for all cores, got ", options.num_threads));
  }
  if (options.num_threads == 0) WEIR_RETURN_IF_ERROR(CheckThreadsOfEnvironment());
  if (options.memory_limit < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a device's memory limit is ", options.memory_limit,
                                                   " bytes: it must be positive, or 0 for none"));
  }
  WEIR_RETURN_IF_ERROR(CheckStacks());
  ReportMemoryThatRunsOut();
  ReportFilesThatMayNotGrow();
  OpenStandardStreams();  // before anything opens sockets
  StopLookingForDeadlocks();
  std::unique_ptr<Runtime> runtime(new Runtime(options));
  WEIR_ASSIGN_OR_RETURN(
      runtime->step_threads_,
      runtime->environment_.MakeThreads(runtime->threads_.num_threads(), options.max_blocked_threads));
  for (int i = 0; i < options.num_cpus; ++i) {
    runtime->devices_.push_back(
        MakeCpuDevice(options.job, options.task, i, runtime->threads_, options.memory_limit));
  }
  for (int i = 0; i < options.num_fake_gpus; ++i) {
    runtime->devices_.push_back(MakeFakeDevice(options.job, options.task, i, runtime->threads_,
                                               options.memory_limit, FakeMemory::kProtected));
  }
  if (options.num_gpus > 0) {
    const CudaBackend& backend = options.cuda != nullptr ? *options.cuda : TheCudaBackend();
    WEIR_ASSIGN_OR_RETURN(auto gpus, MakeGpus(backend, options.num_gpus, options.job, options.task,
                                              runtime->threads_, options.memory_limit));
    for (auto& gpu : gpus) runtime->devices_.push_back(std::move(gpu));
  }
  return runtime;
}

Device* Runtime::FindDevice(const DeviceName& name) const {
  for (const auto& device : devices_) {
    if (device->name() == name) return device.get();
  }
  return nullptr;
}

}  // namespace weir
