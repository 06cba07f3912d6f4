// This machine's GPUs, whose calls are written down: what tests that usually run on the recording stand-in
// run on where they are told to (test_cuda.h).
//
// The lines are those of RecordingCudaApi, without what follows the first words: "cudaMemcpyAsync to_device",
// "cudaLaunchKernel Relu_float". Products of matrices and convolutions are launches with the names that the
// stand-in gives them. Work goes to the GPU at once. Thread safety: all methods.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/cuda_backend.h"

namespace weir {

class LoggedCuda final : public CudaApi {
 public:
  // Borrows the backend, whose api must not be null.
  explicit LoggedCuda(const CudaBackend& of);
  ~LoggedCuda() override;

  const CudaBackend& backend() const { return backend_; }

  std::vector<std::string> log() const;
  void ClearLog();
  // By name, since the beginning.
  std::map<std::string, int64_t> num_calls() const;
  // Waits for everything that was enqueued.
  void Synchronize();
  // Has a kernel write to an address that is nobody's: every later call on the device gives an error, in
  // this process.
  void LoseDevice(int device);

  absl::StatusOr<int> NumDevices() override;
  absl::StatusOr<CudaDeviceProperties> Properties(int device) override;
  absl::StatusOr<CudaMemory> Memory(int device) override;
  absl::StatusOr<CudaVersions> Versions() override;
  absl::Status Select(int device) override;
  absl::StatusOr<void*> Allocate(int device, size_t num_bytes) override;
  absl::Status Free(int device, void* address) override;
  absl::StatusOr<void*> AllocatePinned(size_t num_bytes) override;
  absl::Status FreePinned(void* address) override;
  absl::StatusOr<CudaStreamHandle> CreateStream(int device) override;
  absl::Status DestroyStream(CudaStreamHandle stream) override;
  absl::Status SynchronizeStream(CudaStreamHandle stream) override;
  absl::StatusOr<CudaEventHandle> CreateEvent(int device) override;
  absl::Status DestroyEvent(CudaEventHandle event) override;
  absl::Status RecordEvent(CudaEventHandle event, CudaStreamHandle stream) override;
  absl::Status WaitForEvent(CudaStreamHandle stream, CudaEventHandle event) override;
  absl::StatusOr<bool> IsEventDone(CudaEventHandle event) override;
  absl::Status SynchronizeEvent(CudaEventHandle event) override;
  absl::Status Copy(CudaCopy kind, void* to, const void* from, size_t num_bytes,
                    CudaStreamHandle stream) override;
  absl::Status Fill(void* to, uint8_t value, size_t num_bytes, CudaStreamHandle stream) override;
  absl::Status Launch(const CudaFunction& function, const CudaGrid& grid,
                      absl::Span<const CudaArgument> arguments, CudaStreamHandle stream) override;
  absl::Status BeginCapture(CudaStreamHandle stream) override;
  absl::StatusOr<CudaGraphHandle> EndCapture(CudaStreamHandle stream) override;
  absl::Status LaunchGraph(const CudaGraphHandle& graph, CudaStreamHandle stream) override;
  absl::Status DestroyGraph(const CudaGraphHandle& graph) override;
  absl::Status LastError(int device) override;

 private:
  class LoggedBlas;
  class LoggedDnn;
  class LoggedSort;

  void Log(const std::string& name, const std::string& text = "");

  CudaApi& api_;
  const std::unique_ptr<LoggedBlas> blas_;
  const std::unique_ptr<LoggedDnn> dnn_;
  const std::unique_ptr<LoggedSort> sort_;
  const CudaBackend backend_;
  mutable absl::Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> num_calls_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<int, void*>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
