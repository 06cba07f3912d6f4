// What Weir asks of NCCL, as an interface: the real one (nccl_library.h) or a recording stand-in for tests
// (recording_nccl_api.h).
//
// All calls enqueue work on a stream and return; a collective happens when the work of all ranks has come to
// it. No header of NCCL is needed here. Errors name NCCL's function and its words for what went wrong; NCCL
// itself says no more. They are NotFound without the library, FailedPrecondition with one that is too old.
//
// Thread safety: Open, AsyncError and Abort from any thread. Everything else by whoever holds turn(): the
// devices must get the collectives of all communicators in one order, and NCCL's groups belong to a thread.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "graph/types/dtype.h"
#include "kernels/cuda/cuda_api.h"

namespace weir {

// One rank's end of a communicator.
struct NcclRank {
  int device = -1;  // CUDA's number
  void* handle = nullptr;
};

enum class NcclReduction { kSum, kProduct, kMax, kMin };

class NcclApi {
 public:
  virtual ~NcclApi() = default;

  absl::Mutex& turn() ABSL_LOCK_RETURNED(turn_) { return turn_; }

  // Opens the library at the first call. The same answer every time.
  virtual absl::Status Open() = 0;

  // A communicator of these devices, all different: one rank for each, in their order. Waits for the devices
  // to find one another. Each rank is ended once, by Destroy or Abort.
  virtual absl::StatusOr<std::vector<NcclRank>> Create(absl::Span<const int> devices) = 0;
  // Precondition: its collectives are over; otherwise it waits for them.
  virtual absl::Status Destroy(const NcclRank& rank) = 0;
  // Ends its collectives, which give nothing: streams go on behind them. Does not wait for other ranks.
  virtual absl::Status Abort(const NcclRank& rank) = 0;
  // What has gone wrong since a collective was enqueued.
  virtual absl::Status AsyncError(const NcclRank& rank) = 0;

  // Between the two, calls for several ranks are put together: one thread that enqueued them one by one would
  // wait for itself. EndGroup enqueues them. After an error in between it must be called all the same.
  virtual absl::Status BeginGroup() = 0;
  virtual absl::Status EndGroup() = 0;

  // `input` and `output` are in the memory of the rank's device, and may be the same place. Precondition:
  // `dtype` is float, double, int32 or int64.
  virtual absl::Status AllReduce(const NcclRank& rank, const void* input, void* output, size_t count,
                                 DType dtype, NcclReduction reduction, CudaStreamHandle stream) = 0;
  // `num_bytes`: of one rank's input. The output has the inputs of all ranks, in their order.
  virtual absl::Status AllGather(const NcclRank& rank, const void* input, void* output, size_t num_bytes,
                                 CudaStreamHandle stream) = 0;
  // Only the input of rank `root` is looked at.
  virtual absl::Status Broadcast(const NcclRank& rank, const void* input, void* output, size_t num_bytes,
                                 int root, CudaStreamHandle stream) = 0;

 private:
  absl::Mutex turn_;
};

}  // namespace weir
