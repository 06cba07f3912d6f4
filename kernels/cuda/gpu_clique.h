// GPUs of one process that NCCL connects: collectives on tensors in their memory, in the order of their
// compute streams. Nothing is copied to the host, and nothing waits.
//
// NCCL adds up in an order of its own: with more than two GPUs, sums may differ from those of the host's
// algorithm in their last places, and are the same from run to run as far as NCCL chooses the same way.
// Numbers of 16 bits are added up in float and rounded once, as everywhere in Weir. One GPU alone needs no
// NCCL: its result is its input.
//
// Everything for all GPUs is enqueued by one thread in one piece. So no GPU waits for another one whose step
// has failed before: its collective was never enqueued. What goes wrong later (a GPU is lost, a link breaks)
// is looked for by a thread of the clique while collectives are under way; then all of them are aborted, so
// that no stream stands still, and every later call has that error, which names the GPU.
//
// What the aborted collectives give is garbage, and the streams go on with it: to the variables. So all GPUs
// of the clique are lost (DeviceHealth) before anything is aborted: nothing comes from their memory any more.
//
// Thread safety: all methods, with different tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_health.h"
#include "kernels/cuda/gpu_links.h"
#include "kernels/cuda/nccl_api.h"
#include "kernels/serial_thread.h"

namespace weir {

class GpuClique {
 public:
  // All different, at least one; ranks are in this order. The devices must not be used by calls once they are
  // gone; this may outlive them.
  explicit GpuClique(std::vector<RefPtr<GpuLinks>> gpus);
  // Ends the communicators.
  ~GpuClique();
  GpuClique(const GpuClique&) = delete;
  GpuClique& operator=(const GpuClique&) = delete;

  int size() const { return static_cast<int>(gpus_.size()); }
  CudaDevice& device(int rank) const { return gpus_[rank]->device; }
  // "/job:a/task:0/device:GPU:0, ...".
  std::string ToString() const;

  // Connects the GPUs, at the first call. The same answer every time: NotFound or FailedPrecondition without
  // NCCL, else why NCCL cannot connect them. Where a GPU is lost collectives say so, not this.
  absl::Status Connect();

  // Whether AllReduce takes such elements.
  static bool Reduces(DType dtype, NcclReduction reduction, bool divides);
  // One input of each GPU, of one dtype and shape, gives one output for each. `divides`: by size().
  // Precondition: Reduces. `name` is for errors, here and below.
  absl::StatusOr<std::vector<Tensor>> AllReduce(const std::vector<Tensor>& inputs, NcclReduction reduction,
                                                bool divides, absl::string_view name = "");
  // The inputs joined along dimension 0, of which they have one; the others are the same.
  absl::StatusOr<std::vector<Tensor>> AllGather(const std::vector<Tensor>& inputs,
                                                absl::string_view name = "");
  // `input` is that of GPU `root`, and its output.
  absl::StatusOr<std::vector<Tensor>> Broadcast(int root, const Tensor& input, absl::string_view name = "");

 private:
  absl::StatusOr<Tensor> Allocate(int rank, DType dtype, const Shape& shape) const;
  absl::StatusOr<Tensor> Cast(int rank, const Tensor& tensor, DType dtype) const;
  // In place.
  absl::Status Divide(int rank, Tensor& tensor);
  absl::StatusOr<Tensor> DivisorOf(int rank, DType dtype);

  // Calls `ask`, which makes NCCL's calls of one rank, for each of them, and has them enqueued.
  using Ask = absl::FunctionRef<absl::Status(int rank, const NcclRank& of)>;
  absl::Status Enqueue(absl::string_view name, Ask ask);
  absl::Status ConnectInTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(nccl_.turn());
  // The ranks, for calls until EndCalls.
  absl::StatusOr<std::vector<NcclRank>> BeginCalls(absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(nccl_.turn());
  void EndCalls();
  absl::Status OfDevice(int rank, const absl::Status& status) const;
  // Ok while nothing has been aborted.
  absl::Status broken();
  // All GPUs are lost; aborts all. Gives the error that everything has from now on.
  absl::Status Break(const absl::Status& why);
  absl::Status Watch();
  void KeepWatch();
  // Ok while nothing is wrong. `is_over`: whether all that was enqueued is.
  absl::Status LookAt(const std::vector<RefPtr<CudaEvent>>& events, bool* is_over);

  const std::vector<RefPtr<GpuLinks>> gpus_;
  // Of the devices, also when they are gone.
  const std::vector<std::string> names_;
  const std::vector<std::shared_ptr<DeviceHealth>> healths_;
  NcclApi& nccl_;
  absl::Mutex mutex_;
  std::vector<NcclRank> ranks_ ABSL_GUARDED_BY(mutex_);  // none: not connected
  absl::Status unconnected_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  std::string newest_ ABSL_GUARDED_BY(mutex_);                         // the name of the newest collective
  std::vector<RefPtr<CudaEvent>> last_ ABSL_GUARDED_BY(mutex_);        // after the newest collective, by rank
  std::vector<std::vector<Tensor>> divisors_ ABSL_GUARDED_BY(mutex_);  // size() on each GPU, by type
  bool is_called_ ABSL_GUARDED_BY(mutex_) = false;                     // between BeginCalls and EndCalls
  bool is_watched_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  SerialThread watch_;  // last: it ends first
};

}  // namespace weir
