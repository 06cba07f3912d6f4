// Captures of a RecordingCudaApi's streams, and what they become.
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {

absl::Status RecordingCudaApi::RefuseWhileCapturing(const std::string& name, const Stream& stream) {
  if (!stream.is_capturing) return absl::OkStatus();
  return Fail(name, kCudaStreamCaptureUnsupported, absl::StrCat(name, " on a stream that is captured"));
}

absl::Status RecordingCudaApi::BeginCapture(CudaStreamHandle handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) {
    return Fail("cudaStreamBeginCapture", kCudaInvalidValue, "cudaStreamBeginCapture: no such stream");
  }
  WEIR_RETURN_IF_ERROR(
      Begin("cudaStreamBeginCapture", stream->device, absl::StrCat("of stream ", stream->number)));
  WEIR_RETURN_IF_ERROR(RefuseWhileCapturing("cudaStreamBeginCapture", *stream));
  stream->is_capturing = true;
  return absl::OkStatus();
}

absl::StatusOr<CudaGraphHandle> RecordingCudaApi::EndCapture(CudaStreamHandle handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(handle);
  if (stream == nullptr || !stream->is_capturing) {
    return Fail("cudaStreamEndCapture", kCudaInvalidValue, "cudaStreamEndCapture: no such capture");
  }
  stream->is_capturing = false;
  Graph graph{.device = stream->device, .work = std::exchange(stream->captured, {})};
  WEIR_RETURN_IF_ERROR(
      Begin("cudaStreamEndCapture", stream->device, absl::StrCat("of stream ", stream->number)));
  const auto num_nodes = static_cast<int>(graph.work.size());
  WEIR_RETURN_IF_ERROR(Begin("cudaGraphInstantiate", stream->device, absl::StrCat(num_nodes, " nodes")));
  void* const made = reinterpret_cast<void*>(++num_handles_);
  graphs_[made] = std::move(graph);
  return CudaGraphHandle{stream->device, made, num_nodes};
}

absl::Status RecordingCudaApi::LaunchGraph(const CudaGraphHandle& handle, CudaStreamHandle stream_handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(stream_handle);
  const auto graph = graphs_.find(handle.graph);
  if (stream == nullptr || graph == graphs_.end() || graph->second.device != stream->device) {
    return Fail("cudaGraphLaunch", kCudaInvalidValue, "cudaGraphLaunch: no such graph or stream");
  }
  WEIR_RETURN_IF_ERROR(Begin("cudaGraphLaunch", stream->device,
                             absl::StrCat(graph->second.work.size(), " nodes on stream ", stream->number)));
  WEIR_RETURN_IF_ERROR(RefuseWhileCapturing("cudaGraphLaunch", *stream));
  for (const Work& work : graph->second.work) Enqueue(stream, work);
  return absl::OkStatus();
}

absl::Status RecordingCudaApi::DestroyGraph(const CudaGraphHandle& handle) {
  absl::MutexLock lock(&mutex_);
  if (graphs_.erase(handle.graph) == 0) {
    return Fail("cudaGraphExecDestroy", kCudaInvalidValue, "cudaGraphExecDestroy: no such graph");
  }
  return Begin("cudaGraphExecDestroy", handle.device, "");
}

}  // namespace weir
