// What one task computes with: the ops and kernels it knows, its devices, its threads (one pool that splits
// kernels, and threads that run steps).
//
// Owns them all; everything above borrows. Many runtimes live in one process, so a cluster of five tasks is
// an ordinary unit test: they share nothing but the list of the standard kernels, which never changes. Thread
// safety: fixed after construction, safe to read concurrently.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/op_registry.h"
#include "kernels/device.h"
#include "kernels/environment.h"
#include "kernels/kernel_registry.h"
#include "kernels/thread_pool.h"
#include "kernels/threads.h"
#include "session/executor/overlap_options.h"

namespace weir {

struct CudaBackend;  // kernels/cuda/cuda_backend.h

struct RuntimeOptions {
  std::string job = "localhost";
  int task = 0;
  int num_cpus = 1;               // CPU devices; they share the cores
  int num_fake_gpus = 0;          // devices GPU:0.. on host memory, to try out placement
  int num_gpus = 0;               // devices GPU:0.. that are GPUs of this machine; not beside fake ones
  bool cuda_graphs = true;        // steps on GPUs that repeat are launched as one (executor/recorded_runs.h)
  int num_threads = 0;            // 0: $WEIR_NUM_THREADS, else all cores
  int64_t memory_limit = 0;       // bytes per device; 0: unlimited
  int max_blocked_threads = 256;  // for kernels that wait (Kernel::may_block)
  OverlapOptions overlap;         // of kernels of one program
  // The ops of the graphs, when there are more than StandardOps(): those and the program's own
  // (RegisterStandardOps). Borrowed.
  const OpRegistry* ops = nullptr;
  Environment* environment = &RealEnvironment();  // borrowed
  // Kernels of the program's own, for one type of device; called after the standard ones are registered. On
  // GPUs of this machine they compute on the host.
  std::function<void(KernelRegistry& registry, absl::string_view device_type)> register_kernels;
  // What GPUs are made of; null: TheCudaBackend(). Borrowed.
  const CudaBackend* cuda = nullptr;
};

class Runtime {
 public:
  static constexpr int kMaxDevices = 64;  // of each type
  static constexpr int kMaxThreads = 1024;

  // InvalidArgument for counts out of range; FailedPrecondition when there are not so many GPUs;
  // ResourceExhausted when the system gives no threads. Turns
  // Abseil's search for deadlocks off, in the whole process, and opens /dev/null in the place of standard
  // streams that are closed.
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(const RuntimeOptions& options = {});

  const OpRegistry& ops() const { return *ops_; }
  const KernelRegistry& kernels() const { return *kernels_; }
  ThreadPool& threads() { return threads_; }
  Threads& step_threads() { return *step_threads_; }
  Environment& environment() const { return environment_; }
  const DeviceName& task() const { return task_; }
  const OverlapOptions& overlap() const { return overlap_; }
  bool cuda_graphs() const { return cuda_graphs_; }

  absl::Span<const std::unique_ptr<Device>> devices() const { return devices_; }
  Device* FindDevice(const DeviceName& name) const;  // null when there is none

 private:
  explicit Runtime(const RuntimeOptions& options);

  Environment& environment_;
  const OpRegistry* ops_;
  std::shared_ptr<const KernelRegistry> kernels_;
  ThreadPool threads_;
  DeviceName task_;
  OverlapOptions overlap_;
  const bool cuda_graphs_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Threads> step_threads_;  // last: they use what is above
};

}  // namespace weir
