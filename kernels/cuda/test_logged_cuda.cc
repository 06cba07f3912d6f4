#include "kernels/cuda/test_logged_cuda.h"

#include "absl/strings/str_cat.h"
#include "graph/types/dtype.h"
#include "kernels/cuda/launch.h"

namespace weir {

class LoggedCuda::LoggedBlas final : public CudaBlas {
 public:
  LoggedBlas(LoggedCuda& log, CudaBlas* of) : log_(log), of_(of) {}
  absl::Status Multiply(CudaStream& stream, Allocator& allocator, const MatrixProduct& product) override {
    log_.Log("cudaLaunchKernel", "cublasLtMatmul");
    return of_->Multiply(stream, allocator, product);
  }

 private:
  LoggedCuda& log_;
  CudaBlas* const of_;
};

class LoggedCuda::LoggedDnn final : public CudaDnn {
 public:
  LoggedDnn(LoggedCuda& log, CudaDnn* of) : log_(log), of_(of) {}
  absl::Status Convolve(CudaStream& stream, Allocator& allocator, const Convolution& convolution) override {
    log_.Log("cudaLaunchKernel", OpNameOf(convolution.direction));
    return of_->Convolve(stream, allocator, convolution);
  }

 private:
  LoggedCuda& log_;
  CudaDnn* const of_;
};

class LoggedCuda::LoggedSort final : public CudaSort {
 public:
  LoggedSort(LoggedCuda& log, CudaSort* of) : log_(log), of_(of) {}
  absl::Status Sort(CudaStream& stream, Allocator& allocator, const PairSort& pairs) override {
    log_.Log("cudaLaunchKernel", "SortPairs");
    return of_->Sort(stream, allocator, pairs);
  }

 private:
  LoggedCuda& log_;
  CudaSort* const of_;
};

LoggedCuda::LoggedCuda(const CudaBackend& of)
    : api_(*of.api),
      blas_(std::make_unique<LoggedBlas>(*this, of.compute.blas)),
      dnn_(std::make_unique<LoggedDnn>(*this, of.compute.dnn)),
      sort_(std::make_unique<LoggedSort>(*this, of.compute.sort)),
      backend_{.api = this,
               .compute = {.kernels = of.compute.kernels,
                           .blas = of.compute.blas == nullptr ? nullptr : blas_.get(),
                           .dnn = of.compute.dnn == nullptr ? nullptr : dnn_.get(),
                           .sort = of.compute.sort == nullptr ? nullptr : sort_.get()},
               .nccl = of.nccl} {}

LoggedCuda::~LoggedCuda() = default;

void LoggedCuda::Log(const std::string& name, const std::string& text) {
  absl::MutexLock lock(&mutex_);
  ++num_calls_[name];
  log_.push_back(text.empty() ? name : absl::StrCat(name, " ", text));
}

std::vector<std::string> LoggedCuda::log() const {
  absl::MutexLock lock(&mutex_);
  return log_;
}

void LoggedCuda::ClearLog() {
  absl::MutexLock lock(&mutex_);
  log_.clear();
}

std::map<std::string, int64_t> LoggedCuda::num_calls() const {
  absl::MutexLock lock(&mutex_);
  return num_calls_;
}

void LoggedCuda::Synchronize() {
  // A stream must not be destroyed meanwhile.
  absl::MutexLock lock(&mutex_);
  for (const auto& [device, stream] : streams_) {
    api_.SynchronizeStream({device, stream}).IgnoreError();
  }
}

void LoggedCuda::LoseDevice(int device) {
  const auto stream = CudaStream::Create(api_, device);
  if (!stream.ok()) return;
  // As LaunchUnary does it, but for the addresses.
  const auto* const from = reinterpret_cast<const float*>(uintptr_t{1} << 46);
  auto* const to = reinterpret_cast<float*>(uintptr_t{1} << 46);
  LaunchKernel(**stream, *backend_.compute.kernels, "Relu", {DType::kFloat32}, CudaGrid(), from, to,
               int64_t{1})
      .IgnoreError();
  (*stream)->Synchronize().IgnoreError();
}

absl::StatusOr<int> LoggedCuda::NumDevices() { return api_.NumDevices(); }
absl::StatusOr<CudaDeviceProperties> LoggedCuda::Properties(int device) { return api_.Properties(device); }
absl::StatusOr<CudaMemory> LoggedCuda::Memory(int device) { return api_.Memory(device); }
absl::StatusOr<CudaVersions> LoggedCuda::Versions() { return api_.Versions(); }
absl::Status LoggedCuda::Select(int device) { return api_.Select(device); }

absl::StatusOr<void*> LoggedCuda::Allocate(int device, size_t num_bytes) {
  Log("cudaMalloc", absl::StrCat(num_bytes, " bytes of device ", device));
  return api_.Allocate(device, num_bytes);
}
absl::Status LoggedCuda::Free(int device, void* address) {
  Log("cudaFree");
  return api_.Free(device, address);
}
absl::StatusOr<void*> LoggedCuda::AllocatePinned(size_t num_bytes) {
  Log("cudaHostAlloc", absl::StrCat(num_bytes, " bytes"));
  return api_.AllocatePinned(num_bytes);
}
absl::Status LoggedCuda::FreePinned(void* address) {
  Log("cudaFreeHost");
  return api_.FreePinned(address);
}

absl::StatusOr<CudaStreamHandle> LoggedCuda::CreateStream(int device) {
  Log("cudaStreamCreateWithFlags");
  auto stream = api_.CreateStream(device);
  absl::MutexLock lock(&mutex_);
  if (stream.ok()) streams_.insert({stream->device, stream->stream});
  return stream;
}
absl::Status LoggedCuda::DestroyStream(CudaStreamHandle stream) {
  Log("cudaStreamDestroy");
  {
    absl::MutexLock lock(&mutex_);
    streams_.erase({stream.device, stream.stream});
  }
  return api_.DestroyStream(stream);
}
absl::Status LoggedCuda::SynchronizeStream(CudaStreamHandle stream) {
  Log("cudaStreamSynchronize");
  return api_.SynchronizeStream(stream);
}

absl::StatusOr<CudaEventHandle> LoggedCuda::CreateEvent(int device) {
  Log("cudaEventCreateWithFlags");
  return api_.CreateEvent(device);
}
absl::Status LoggedCuda::DestroyEvent(CudaEventHandle event) {
  Log("cudaEventDestroy");
  return api_.DestroyEvent(event);
}
absl::Status LoggedCuda::RecordEvent(CudaEventHandle event, CudaStreamHandle stream) {
  Log("cudaEventRecord");
  return api_.RecordEvent(event, stream);
}
absl::Status LoggedCuda::WaitForEvent(CudaStreamHandle stream, CudaEventHandle event) {
  Log("cudaStreamWaitEvent");
  return api_.WaitForEvent(stream, event);
}
absl::StatusOr<bool> LoggedCuda::IsEventDone(CudaEventHandle event) {
  Log("cudaEventQuery");
  return api_.IsEventDone(event);
}
absl::Status LoggedCuda::SynchronizeEvent(CudaEventHandle event) {
  Log("cudaEventSynchronize");
  return api_.SynchronizeEvent(event);
}

absl::Status LoggedCuda::Copy(CudaCopy kind, void* to, const void* from, size_t num_bytes,
                              CudaStreamHandle stream) {
  const char* const direction = kind == CudaCopy::kToDevice ? "to_device"
                                : kind == CudaCopy::kToHost ? "to_host"
                                                            : "on_device";
  Log("cudaMemcpyAsync", absl::StrCat(direction, " ", num_bytes, " bytes"));
  return api_.Copy(kind, to, from, num_bytes, stream);
}
absl::Status LoggedCuda::Fill(void* to, uint8_t value, size_t num_bytes, CudaStreamHandle stream) {
  Log("cudaMemsetAsync", absl::StrCat(num_bytes, " bytes"));
  return api_.Fill(to, value, num_bytes, stream);
}
absl::Status LoggedCuda::Launch(const CudaFunction& function, const CudaGrid& grid,
                                absl::Span<const CudaArgument> arguments, CudaStreamHandle stream) {
  Log("cudaLaunchKernel", function.name);
  return api_.Launch(function, grid, arguments, stream);
}

absl::Status LoggedCuda::BeginCapture(CudaStreamHandle stream) {
  Log("cudaStreamBeginCapture");
  return api_.BeginCapture(stream);
}
absl::StatusOr<CudaGraphHandle> LoggedCuda::EndCapture(CudaStreamHandle stream) {
  Log("cudaStreamEndCapture");
  return api_.EndCapture(stream);
}
absl::Status LoggedCuda::LaunchGraph(const CudaGraphHandle& graph, CudaStreamHandle stream) {
  Log("cudaGraphLaunch");
  return api_.LaunchGraph(graph, stream);
}
absl::Status LoggedCuda::DestroyGraph(const CudaGraphHandle& graph) {
  Log("cudaGraphExecDestroy");
  return api_.DestroyGraph(graph);
}

absl::Status LoggedCuda::LastError(int device) { return api_.LastError(device); }

}  // namespace weir
