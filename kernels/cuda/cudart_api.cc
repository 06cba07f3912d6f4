#include "kernels/cuda/cudart_api.h"

#include <cuda_runtime_api.h>

#include <vector>

#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_error.h"

namespace weir {
namespace {

static_assert(cudaErrorInvalidValue == static_cast<cudaError_t>(kCudaInvalidValue));
static_assert(cudaErrorMemoryAllocation == static_cast<cudaError_t>(kCudaOutOfMemory));
static_assert(cudaErrorInsufficientDriver == static_cast<cudaError_t>(kCudaInsufficientDriver));
static_assert(cudaErrorNoDevice == static_cast<cudaError_t>(kCudaNoDevice));
static_assert(cudaErrorNotReady == static_cast<cudaError_t>(kCudaNotReady));
static_assert(cudaErrorIllegalAddress == static_cast<cudaError_t>(kCudaIllegalAddress));
static_assert(cudaErrorStreamCaptureUnsupported == static_cast<cudaError_t>(kCudaStreamCaptureUnsupported));
static_assert(cudaErrorLaunchFailure == static_cast<cudaError_t>(kCudaLaunchFailure));

absl::Status ToStatus(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  // The runtime keeps an error for the thread's next question; it has its answer.
  cudaGetLastError();
  return CudaError(call, static_cast<int>(error), cudaGetErrorName(error), cudaGetErrorString(error));
}

// The runtime has one current device per thread; to name the one that is current already costs nanoseconds.
absl::Status SetCurrent(int device) { return ToStatus("cudaSetDevice", cudaSetDevice(device)); }

cudaStream_t Native(CudaStreamHandle stream) { return static_cast<cudaStream_t>(stream.stream); }
cudaEvent_t Native(CudaEventHandle event) { return static_cast<cudaEvent_t>(event.event); }
cudaGraphExec_t Native(const CudaGraphHandle& graph) { return static_cast<cudaGraphExec_t>(graph.graph); }

cudaMemcpyKind Native(CudaCopy kind) {
  switch (kind) {
    case CudaCopy::kToDevice:
      return cudaMemcpyHostToDevice;
    case CudaCopy::kToHost:
      return cudaMemcpyDeviceToHost;
    case CudaCopy::kOnDevice:
      return cudaMemcpyDeviceToDevice;
  }
  return cudaMemcpyDefault;
}

dim3 Native(const std::array<uint32_t, 3>& size) { return dim3(size[0], size[1], size[2]); }

class CudartApi final : public CudaApi {
 public:
  absl::StatusOr<int> NumDevices() override {
    int count = 0;
    WEIR_RETURN_IF_ERROR(ToStatus("cudaGetDeviceCount", cudaGetDeviceCount(&count)));
    return count;
  }

  absl::StatusOr<CudaDeviceProperties> Properties(int device) override {
    cudaDeviceProp found;
    WEIR_RETURN_IF_ERROR(ToStatus("cudaGetDeviceProperties", cudaGetDeviceProperties(&found, device)));
    return CudaDeviceProperties{.name = found.name,
                                .compute_major = found.major,
                                .compute_minor = found.minor,
                                .num_multiprocessors = found.multiProcessorCount,
                                .total_memory = static_cast<int64_t>(found.totalGlobalMem)};
  }

  absl::StatusOr<CudaMemory> Memory(int device) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(device));
    size_t free = 0, total = 0;
    WEIR_RETURN_IF_ERROR(ToStatus("cudaMemGetInfo", cudaMemGetInfo(&free, &total)));
    return CudaMemory{.free = static_cast<int64_t>(free), .total = static_cast<int64_t>(total)};
  }

  absl::StatusOr<CudaVersions> Versions() override {
    CudaVersions versions;
    WEIR_RETURN_IF_ERROR(ToStatus("cudaDriverGetVersion", cudaDriverGetVersion(&versions.driver)));
    WEIR_RETURN_IF_ERROR(ToStatus("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&versions.runtime)));
    return versions;
  }

  absl::Status Select(int device) override { return SetCurrent(device); }

  absl::StatusOr<void*> Allocate(int device, size_t num_bytes) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(device));
    void* address = nullptr;
    WEIR_RETURN_IF_ERROR(ToStatus("cudaMalloc", cudaMalloc(&address, num_bytes)));
    return address;
  }

  absl::Status Free(int device, void* address) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(device));
    return ToStatus("cudaFree", cudaFree(address));
  }

  absl::StatusOr<void*> AllocatePinned(size_t num_bytes) override {
    void* address = nullptr;
    WEIR_RETURN_IF_ERROR(
        ToStatus("cudaHostAlloc", cudaHostAlloc(&address, num_bytes, cudaHostAllocPortable)));
    return address;
  }

  absl::Status FreePinned(void* address) override { return ToStatus("cudaFreeHost", cudaFreeHost(address)); }

  absl::StatusOr<CudaStreamHandle> CreateStream(int device) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(device));
    cudaStream_t stream = nullptr;
    WEIR_RETURN_IF_ERROR(
        ToStatus("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
    return CudaStreamHandle{device, stream};
  }

  absl::Status DestroyStream(CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaStreamDestroy", cudaStreamDestroy(Native(stream)));
  }

  absl::Status SynchronizeStream(CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaStreamSynchronize", cudaStreamSynchronize(Native(stream)));
  }

  absl::StatusOr<CudaEventHandle> CreateEvent(int device) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(device));
    cudaEvent_t event = nullptr;
    WEIR_RETURN_IF_ERROR(
        ToStatus("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
    return CudaEventHandle{device, event};
  }

  absl::Status DestroyEvent(CudaEventHandle event) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(event.device));
    return ToStatus("cudaEventDestroy", cudaEventDestroy(Native(event)));
  }

  absl::Status RecordEvent(CudaEventHandle event, CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaEventRecord", cudaEventRecord(Native(event), Native(stream)));
  }

  absl::Status WaitForEvent(CudaStreamHandle stream, CudaEventHandle event) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaStreamWaitEvent", cudaStreamWaitEvent(Native(stream), Native(event), 0));
  }

  absl::StatusOr<bool> IsEventDone(CudaEventHandle event) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(event.device));
    const cudaError_t error = cudaEventQuery(Native(event));
    if (error == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    WEIR_RETURN_IF_ERROR(ToStatus("cudaEventQuery", error));
    return true;
  }

  absl::Status SynchronizeEvent(CudaEventHandle event) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(event.device));
    return ToStatus("cudaEventSynchronize", cudaEventSynchronize(Native(event)));
  }

  absl::Status Copy(CudaCopy kind, void* to, const void* from, size_t num_bytes,
                    CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaMemcpyAsync", cudaMemcpyAsync(to, from, num_bytes, Native(kind), Native(stream)));
  }

  absl::Status Fill(void* to, uint8_t value, size_t num_bytes, CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaMemsetAsync", cudaMemsetAsync(to, value, num_bytes, Native(stream)));
  }

  absl::Status Launch(const CudaFunction& function, const CudaGrid& grid,
                      absl::Span<const CudaArgument> arguments, CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    std::vector<void*> values;
    values.reserve(arguments.size());
    for (const CudaArgument& argument : arguments) values.push_back(const_cast<void*>(argument.value));
    return ToStatus("cudaLaunchKernel",
                    cudaLaunchKernel(function.address, Native(grid.blocks), Native(grid.threads),
                                     values.data(), grid.shared_bytes, Native(stream)));
  }

  // Relaxed: other threads, and this one on other streams, may do what they like, as to allocate memory.
  absl::Status BeginCapture(CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaStreamBeginCapture",
                    cudaStreamBeginCapture(Native(stream), cudaStreamCaptureModeRelaxed));
  }

  absl::StatusOr<CudaGraphHandle> EndCapture(CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    cudaGraph_t graph = nullptr;
    WEIR_RETURN_IF_ERROR(ToStatus("cudaStreamEndCapture", cudaStreamEndCapture(Native(stream), &graph)));
    size_t num_nodes = 0;
    cudaGraphExec_t executable = nullptr;
    absl::Status status = ToStatus("cudaGraphGetNodes", cudaGraphGetNodes(graph, nullptr, &num_nodes));
    if (status.ok()) status = ToStatus("cudaGraphInstantiate", cudaGraphInstantiate(&executable, graph, 0));
    status.Update(ToStatus("cudaGraphDestroy", cudaGraphDestroy(graph)));
    WEIR_RETURN_IF_ERROR(status);
    return CudaGraphHandle{stream.device, executable, static_cast<int>(num_nodes)};
  }

  absl::Status LaunchGraph(const CudaGraphHandle& graph, CudaStreamHandle stream) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(stream.device));
    return ToStatus("cudaGraphLaunch", cudaGraphLaunch(Native(graph), Native(stream)));
  }

  absl::Status DestroyGraph(const CudaGraphHandle& graph) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(graph.device));
    return ToStatus("cudaGraphExecDestroy", cudaGraphExecDestroy(Native(graph)));
  }

  absl::Status LastError(int device) override {
    WEIR_RETURN_IF_ERROR(SetCurrent(device));
    return ToStatus("cudaGetLastError", cudaGetLastError());
  }
};

}  // namespace

bool IsBuiltWithCuda() { return true; }

std::unique_ptr<CudaApi> MakeCudartApi() { return std::make_unique<CudartApi>(); }

}  // namespace weir
