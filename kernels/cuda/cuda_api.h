// What Weir asks of CUDA's runtime, as an interface: the real one (cudart_api.h) or a recording stand-in for
// tests (recording_cuda_api.h), so that everything above it is proved on machines without a GPU.
//
// No CUDA header is needed here. Devices are numbers from 0 in the order of CUDA_VISIBLE_DEVICES. Every error
// is made by CudaError (cuda_error.h) and names the call. Errors of kernels and copies come late: from
// whatever call is made next. Thread safety: all methods.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weir {

struct CudaDeviceProperties {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int compute_major = 0;
  int compute_minor = 0;
  int num_multiprocessors = 0;
  int64_t total_memory = 0;  // bytes
};

struct CudaMemory {
  int64_t free = 0;  // bytes
  int64_t total = 0;
};

// As CUDA numbers them: 13000 is 13.0.
struct CudaVersions {
  int driver = 0;  // the newest CUDA that the driver can run; 0: there is no driver
  int runtime = 0;
};

// What a stream and an event are to their API. A handle knows its device.
struct CudaStreamHandle {
  int device = -1;
  void* stream = nullptr;
};
struct CudaEventHandle {
  int device = -1;
  void* event = nullptr;
};
// Work that was captured, ready to be launched as one.
struct CudaGraphHandle {
  int device = -1;
  void* graph = nullptr;
  int num_nodes = 0;
};

enum class CudaCopy { kToDevice, kToHost, kOnDevice };

// A function with __global__ as the host knows it: its address there, and a name for logs.
struct CudaFunction {
  const char* name = nullptr;
  const void* address = nullptr;
};

struct CudaGrid {
  std::array<uint32_t, 3> blocks = {1, 1, 1};
  std::array<uint32_t, 3> threads = {1, 1, 1};  // of one block
  uint32_t shared_bytes = 0;                    // of one block, beside what the kernel declares
};

// One argument of a kernel; copied by Launch.
struct CudaArgument {
  const void* value = nullptr;
  size_t num_bytes = 0;
};

class CudaApi {
 public:
  virtual ~CudaApi() = default;

  // NotFound, with the reason, where there is no GPU or no driver for it.
  virtual absl::StatusOr<int> NumDevices() = 0;
  virtual absl::StatusOr<CudaDeviceProperties> Properties(int device) = 0;
  virtual absl::StatusOr<CudaMemory> Memory(int device) = 0;
  virtual absl::StatusOr<CudaVersions> Versions() = 0;

  // Makes the device the one that calls of NVIDIA's other libraries from this thread go to.
  virtual absl::Status Select(int device) = 0;

  // Aligned for everything (256 bytes). Free waits for what the device does.
  virtual absl::StatusOr<void*> Allocate(int device, size_t num_bytes) = 0;
  virtual absl::Status Free(int device, void* address) = 0;
  // Memory of the host that devices copy from and to by themselves.
  virtual absl::StatusOr<void*> AllocatePinned(size_t num_bytes) = 0;
  virtual absl::Status FreePinned(void* address) = 0;

  // Streams do not wait for the default stream. Destroying one lets it finish.
  virtual absl::StatusOr<CudaStreamHandle> CreateStream(int device) = 0;
  virtual absl::Status DestroyStream(CudaStreamHandle stream) = 0;
  virtual absl::Status SynchronizeStream(CudaStreamHandle stream) = 0;

  // Events measure no time.
  virtual absl::StatusOr<CudaEventHandle> CreateEvent(int device) = 0;
  virtual absl::Status DestroyEvent(CudaEventHandle event) = 0;
  virtual absl::Status RecordEvent(CudaEventHandle event, CudaStreamHandle stream) = 0;
  // The stream waits, not the caller.
  virtual absl::Status WaitForEvent(CudaStreamHandle stream, CudaEventHandle event) = 0;
  virtual absl::StatusOr<bool> IsEventDone(CudaEventHandle event) = 0;
  virtual absl::Status SynchronizeEvent(CudaEventHandle event) = 0;

  // In the stream's order; return before it happens. Host memory must be pinned, and stay as it is until
  // then.
  virtual absl::Status Copy(CudaCopy kind, void* to, const void* from, size_t num_bytes,
                            CudaStreamHandle stream) = 0;
  virtual absl::Status Fill(void* to, uint8_t value, size_t num_bytes, CudaStreamHandle stream) = 0;
  virtual absl::Status Launch(const CudaFunction& function, const CudaGrid& grid,
                              absl::Span<const CudaArgument> arguments, CudaStreamHandle stream) = 0;

  // Between the two, what is enqueued on the stream is written down and does not happen. Other streams, and
  // calls that take memory, go on as ever. The stream must not be waited for meanwhile, and no event be
  // recorded on it or waited for by it. EndCapture ends the capture also when it gives an error.
  virtual absl::Status BeginCapture(CudaStreamHandle stream) = 0;
  virtual absl::StatusOr<CudaGraphHandle> EndCapture(CudaStreamHandle stream) = 0;
  // All of it in the stream's order, with the addresses and arguments of the capture. One graph on several
  // streams at once waits for itself.
  virtual absl::Status LaunchGraph(const CudaGraphHandle& graph, CudaStreamHandle stream) = 0;
  // What has been launched goes on to its end.
  virtual absl::Status DestroyGraph(const CudaGraphHandle& graph) = 0;

  // The error that the calling thread has not been told of, which is forgotten unless the device is lost.
  virtual absl::Status LastError(int device) = 0;
};

}  // namespace weir
