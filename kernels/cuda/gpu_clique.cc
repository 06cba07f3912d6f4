#include "kernels/cuda/gpu_clique.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/element_launches.h"
#include "kernels/environment.h"
#include "kernels/lost_device.h"

namespace weir {
namespace {

// How long a stream may stand still before somebody sees why. The thread that looks has nothing to do between
// steps.
constexpr absl::Duration kLookEvery = absl::Milliseconds(20);

// How long to wait for a thread to come out of NCCL before its communicator is aborted under it. The first
// collective makes connections, which may take seconds; one that takes so long is stuck, and only the abort
// lets it go on.
constexpr absl::Duration kMostInNccl = absl::Seconds(30);

bool IsNarrow(DType dtype) { return dtype == DType::kHalf || dtype == DType::kBfloat16; }

Tensor SizeAs(DType dtype, int size) {
  if (dtype == DType::kFloat64) return Tensor::Vector<double>({static_cast<double>(size)});
  return Tensor::Vector<float>({static_cast<float>(size)});
}

std::vector<std::string> NamesOf(const std::vector<RefPtr<GpuLinks>>& gpus) {
  std::vector<std::string> names;
  for (const RefPtr<GpuLinks>& gpu : gpus) names.push_back(gpu->device.name().ToString());
  return names;
}

std::vector<std::shared_ptr<DeviceHealth>> HealthsOf(const std::vector<RefPtr<GpuLinks>>& gpus) {
  std::vector<std::shared_ptr<DeviceHealth>> healths;
  for (const RefPtr<GpuLinks>& gpu : gpus) healths.push_back(gpu->device.shared_health());
  return healths;
}

}  // namespace

GpuClique::GpuClique(std::vector<RefPtr<GpuLinks>> gpus)
    : gpus_(std::move(gpus)),
      names_(NamesOf(gpus_)),
      healths_(HealthsOf(gpus_)),
      nccl_(gpus_[0]->nccl),
      divisors_(gpus_.size()) {}

GpuClique::~GpuClique() {
  {
    absl::MutexLock lock(&mutex_);
    is_ending_ = true;
  }
  watch_.AwaitAll();
  std::vector<RefPtr<CudaEvent>> last;
  {
    absl::MutexLock lock(&mutex_);
    last = std::exchange(last_, {});
  }
  bool is_over = true;
  const bool is_well = LookAt(last, &is_over).ok();
  absl::MutexLock turn(&nccl_.turn());
  absl::MutexLock lock(&mutex_);
  for (const NcclRank& rank : ranks_) {
    // To destroy one waits for what is under way, which may be for ever.
    (is_well && is_over ? nccl_.Destroy(rank) : nccl_.Abort(rank)).IgnoreError();
  }
}

std::string GpuClique::ToString() const { return absl::StrJoin(names_, ", "); }

absl::Status GpuClique::OfDevice(int rank, const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(names_[rank], ": ", status.message()));
}

absl::Status GpuClique::broken() {
  absl::MutexLock lock(&mutex_);
  return broken_;
}

absl::Status GpuClique::Break(const absl::Status& why) {
  std::vector<NcclRank> ranks;
  absl::Status broken;
  {
    absl::MutexLock lock(&mutex_);
    if (broken_.ok()) {
      const std::string newest = newest_.empty() ? "" : absl::StrCat("; the newest is '", newest_, "'");
      broken_ = LostDeviceError(ToString(), absl::StrCat("the collectives between ", ToString(),
                                                         " were ended: ", why.message(), newest));
    }
    broken = broken_;
  }
  // First: with the abort the streams go on.
  for (const std::shared_ptr<DeviceHealth>& health : healths_) health->Lose(broken.message()).IgnoreError();
  {
    absl::MutexLock lock(&mutex_);
    ranks = std::exchange(ranks_, {});
    // Who is in NCCL stands still there only where a stream does, which is let go by this.
    const auto is_nobody_there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !is_called_; };
    RealEnvironment().Await(mutex_, absl::Condition(&is_nobody_there), RealEnvironment().Now() + kMostInNccl);
  }
  for (const NcclRank& rank : ranks) nccl_.Abort(rank).IgnoreError();
  return broken;
}

absl::Status GpuClique::Connect() {
  if (size() == 1) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(nccl_.Open());
  for (const std::shared_ptr<DeviceHealth>& health : healths_) {
    if (!health->status().ok()) return absl::OkStatus();
  }
  absl::MutexLock turn(&nccl_.turn());
  return ConnectInTurn();
}

absl::Status GpuClique::ConnectInTurn() {
  {
    absl::MutexLock lock(&mutex_);
    WEIR_RETURN_IF_ERROR(unconnected_);
    if (!ranks_.empty() || !broken_.ok()) return absl::OkStatus();
  }
  std::vector<int> devices;
  for (const RefPtr<GpuLinks>& gpu : gpus_) devices.push_back(gpu->device.compute_stream().device());
  absl::StatusOr<std::vector<NcclRank>> ranks = nccl_.Create(devices);
  absl::MutexLock lock(&mutex_);
  if (!ranks.ok()) {
    return unconnected_ = absl::Status(ranks.status().code(), absl::StrCat("the GPUs cannot be connected: ",
                                                                           ranks.status().message()));
  }
  ranks_ = *std::move(ranks);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NcclRank>> GpuClique::BeginCalls(absl::string_view name) {
  WEIR_RETURN_IF_ERROR(ConnectInTurn());
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(broken_);
  is_called_ = true;
  newest_ = std::string(name);
  return ranks_;
}

void GpuClique::EndCalls() {
  absl::MutexLock lock(&mutex_);
  is_called_ = false;
}

absl::Status GpuClique::Enqueue(absl::string_view name, Ask ask) {
  WEIR_RETURN_IF_ERROR(broken());
  for (int i = 0; i < size(); ++i) WEIR_RETURN_IF_ERROR(device(i).health());
  absl::MutexLock turn(&nccl_.turn());
  WEIR_ASSIGN_OR_RETURN(const std::vector<NcclRank> ranks, BeginCalls(name));
  absl::Status status = nccl_.BeginGroup();
  if (status.ok()) {
    for (int i = 0; i < size() && status.ok(); ++i) status = OfDevice(i, ask(i, ranks[i]));
    status.Update(nccl_.EndGroup());
  }
  EndCalls();
  if (status.ok()) status = Watch();
  // Some of the streams may have got their part.
  return status.ok() ? status : Break(status);
}

absl::Status GpuClique::Watch() {
  std::vector<RefPtr<CudaEvent>> events;
  for (int i = 0; i < size(); ++i) {
    absl::StatusOr<RefPtr<CudaEvent>> event = device(i).compute_stream().Record();
    if (!event.ok()) return OfDevice(i, device(i).Noted(event.status()));
    events.push_back(*std::move(event));
  }
  {
    absl::MutexLock lock(&mutex_);
    last_.swap(events);  // the old ones are let go of without the lock
    if (std::exchange(is_watched_, true)) return absl::OkStatus();
  }
  return watch_.Add([this] { KeepWatch(); });
}

absl::Status GpuClique::LookAt(const std::vector<RefPtr<CudaEvent>>& events, bool* is_over) {
  *is_over = true;
  for (size_t i = 0; i < events.size(); ++i) {
    const absl::StatusOr<bool> is_done = events[i]->IsDone();
    if (!is_done.ok()) return OfDevice(static_cast<int>(i), is_done.status());
    *is_over = *is_over && *is_done;
  }
  // Nobody aborts a rank meanwhile that is still here.
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    WEIR_RETURN_IF_ERROR(OfDevice(static_cast<int>(i), nccl_.AsyncError(ranks_[i])));
  }
  return absl::OkStatus();
}

void GpuClique::KeepWatch() {
  while (true) {
    std::vector<RefPtr<CudaEvent>> events;
    {
      absl::MutexLock lock(&mutex_);
      RealEnvironment().Await(mutex_, absl::Condition(&is_ending_), RealEnvironment().Now() + kLookEvery);
      events = last_;
      if (is_ending_) return;
    }
    bool is_over = false;
    const absl::Status status = LookAt(events, &is_over);
    if (!status.ok()) Break(status).IgnoreError();
    absl::MutexLock lock(&mutex_);
    const bool is_newest = events[0].get() == last_[0].get();
    if (!status.ok() || (is_over && is_newest)) {
      is_watched_ = false;
      return;
    }
  }
}

absl::StatusOr<Tensor> GpuClique::Allocate(int rank, DType dtype, const Shape& shape) const {
  return Tensor::Allocate(dtype, shape, device(rank).allocator());
}

absl::StatusOr<Tensor> GpuClique::Cast(int rank, const Tensor& tensor, DType dtype) const {
  WEIR_ASSIGN_OR_RETURN(Tensor cast, Allocate(rank, dtype, tensor.shape()));
  WEIR_RETURN_IF_ERROR(
      device(rank).Noted(LaunchCast(device(rank).compute_stream(), device(rank).kernels(), tensor, cast)));
  return cast;
}

absl::StatusOr<Tensor> GpuClique::DivisorOf(int rank, DType dtype) {
  {
    absl::MutexLock lock(&mutex_);
    for (const Tensor& known : divisors_[rank]) {
      if (known.dtype() == dtype) return known;
    }
  }
  // Without the lock: a copy may wait for the stream, and who lets a stream go needs the lock.
  WEIR_ASSIGN_OR_RETURN(const Tensor divisor,
                        device(rank).CopyIn(SizeAs(dtype, size()), [](const absl::Status&) {}));
  absl::MutexLock lock(&mutex_);
  divisors_[rank].push_back(divisor);
  return divisor;
}

absl::Status GpuClique::Divide(int rank, Tensor& tensor) {
  if (tensor.num_elements() == 0) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const Tensor divisor, DivisorOf(rank, tensor.dtype()));
  CudaDevice& gpu = device(rank);
  const Tensor whole = tensor;
  return gpu.Noted(LaunchBinary(gpu.compute_stream(), gpu.kernels(), "RealDiv", whole, divisor, tensor));
}

// NCCL says nothing of a least or greatest number among those that are none.
bool GpuClique::Reduces(DType dtype, NcclReduction reduction, bool divides) {
  switch (dtype) {
    case DType::kHalf:
    case DType::kBfloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return reduction == NcclReduction::kSum || reduction == NcclReduction::kProduct;
    case DType::kInt32:
    case DType::kInt64:
      return !divides;
    default:
      return false;
  }
}

absl::StatusOr<std::vector<Tensor>> GpuClique::AllReduce(const std::vector<Tensor>& inputs,
                                                         NcclReduction reduction, bool divides,
                                                         absl::string_view name) {
  if (size() == 1) return inputs;
  const DType dtype = inputs[0].dtype();
  const DType wide = IsNarrow(dtype) ? DType::kFloat32 : dtype;
  std::vector<Tensor> from, to;
  for (int i = 0; i < size(); ++i) {
    from.push_back(inputs[i]);
    if (wide != dtype) {
      WEIR_ASSIGN_OR_RETURN(from[i], Cast(i, inputs[i], wide));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor output, Allocate(i, wide, inputs[i].shape()));
    to.push_back(std::move(output));
  }
  if (inputs[0].num_elements() > 0) {
    WEIR_RETURN_IF_ERROR(Enqueue(name, [&](int rank, const NcclRank& of) {
      return nccl_.AllReduce(of, from[rank].data(), to[rank].data(), from[rank].num_elements(), wide,
                             reduction, device(rank).compute_stream().handle());
    }));
  }
  for (int i = 0; i < size(); ++i) {
    if (divides) WEIR_RETURN_IF_ERROR(Divide(i, to[i]));
    if (wide != dtype) {
      WEIR_ASSIGN_OR_RETURN(to[i], Cast(i, to[i], dtype));
    }
  }
  return to;
}

absl::StatusOr<std::vector<Tensor>> GpuClique::AllGather(const std::vector<Tensor>& inputs,
                                                         absl::string_view name) {
  if (size() == 1) return inputs;
  int64_t num_rows = 0;
  for (const Tensor& input : inputs) num_rows += input.shape().dim(0);
  Dims dims(inputs[0].shape().dims().begin(), inputs[0].shape().dims().end());
  dims[0] = num_rows;
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  std::vector<Tensor> outputs;
  for (int i = 0; i < size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(Tensor output, Allocate(i, inputs[i].dtype(), shape));
    outputs.push_back(std::move(output));
  }
  if (outputs[0].num_bytes() == 0) return outputs;
  const bool are_alike = std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
    return input.num_bytes() == inputs[0].num_bytes();
  });
  WEIR_RETURN_IF_ERROR(Enqueue(name, [&](int rank, const NcclRank& of) {
    const CudaStreamHandle stream = device(rank).compute_stream().handle();
    char* to = static_cast<char*>(outputs[rank].data());
    if (are_alike) return nccl_.AllGather(of, inputs[rank].data(), to, inputs[rank].num_bytes(), stream);
    // NCCL gathers as much of each. What differs each one sends to all.
    for (int root = 0; root < size(); ++root) {
      const size_t num_bytes = inputs[root].num_bytes();
      if (num_bytes == 0) continue;
      WEIR_RETURN_IF_ERROR(nccl_.Broadcast(of, inputs[rank].data(), to, num_bytes, root, stream));
      to += num_bytes;
    }
    return absl::OkStatus();
  }));
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> GpuClique::Broadcast(int root, const Tensor& input,
                                                         absl::string_view name) {
  std::vector<Tensor> outputs;
  for (int i = 0; i < size(); ++i) {
    if (i == root) {
      outputs.push_back(input);
      continue;
    }
    WEIR_ASSIGN_OR_RETURN(Tensor output, Allocate(i, input.dtype(), input.shape()));
    outputs.push_back(std::move(output));
  }
  if (size() == 1 || input.num_bytes() == 0) return outputs;
  WEIR_RETURN_IF_ERROR(Enqueue(name, [&](int rank, const NcclRank& of) {
    void* const to = rank == root ? const_cast<void*>(input.data()) : outputs[rank].data();
    return nccl_.Broadcast(of, rank == root ? input.data() : to, to, input.num_bytes(), root,
                           device(rank).compute_stream().handle());
  }));
  return outputs;
}

}  // namespace weir
