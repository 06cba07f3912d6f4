#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/human_bytes.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/cuda_recorder.h"
#include "kernels/incarnation.h"

namespace weir {
namespace {

// What tools/cuda.bzl compiles for.
constexpr int kOldestMajor = 9;

// What is left to CUDA's context, its libraries and their workspaces: a twentieth, at least 300 MiB.
int64_t DefaultLimit(const CudaMemory& memory) {
  const int64_t rest = std::max(int64_t{300} << 20, memory.total / 20);
  return std::max<int64_t>(memory.free - rest, memory.free / 2);
}

thread_local const CudaDevice::Detour* detour_here = nullptr;

const CudaKernelTable& NoKernels() {
  static const auto& none = *new CudaKernelTable();
  return none;
}

}  // namespace

std::string Describe(const CudaDeviceProperties& properties) {
  return absl::StrCat(properties.name, ", compute capability ", properties.compute_major, ".",
                      properties.compute_minor, ", ", HumanBytes(properties.total_memory));
}

std::string WhyTooOld(const CudaDeviceProperties& properties) {
  if (properties.compute_major >= kOldestMajor) return "";
  return absl::StrCat("its compute capability is ", properties.compute_major, ".", properties.compute_minor,
                      ", and ", kOldestMajor, ".0 or more is needed");
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(CudaApi& api, int number,
                                                               DeviceAttributes attributes,
                                                               ThreadPool& threads,
                                                               const CudaCompute& compute) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<CudaStream> stream, CudaStream::Create(api, number));
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<CudaStream> to_host, CudaStream::Create(api, number));
  return std::unique_ptr<CudaDevice>(new CudaDevice(api, number, std::move(attributes), threads, compute,
                                                    std::move(stream), std::move(to_host)));
}

CudaDevice::CudaDevice(CudaApi& api, int number, DeviceAttributes attributes, ThreadPool& threads,
                       const CudaCompute& compute, std::unique_ptr<CudaStream> stream,
                       std::unique_ptr<CudaStream> stream_to_host)
    : Device(std::move(attributes), threads),
      kernels_(compute.kernels != nullptr ? *compute.kernels : NoKernels()),
      blas_(compute.blas),
      dnn_(compute.dnn),
      sort_(compute.sort),
      allocator_(api, number, this->attributes().memory_limit),
      stream_(std::move(stream)),
      stream_to_host_(std::move(stream_to_host)),
      checks_(*stream_, allocator_),
      to_device_(*stream_),
      to_host_(*stream_to_host_),
      health_(std::make_shared<DeviceHealth>(name().ToString(), this->attributes().description)) {}

absl::Status CudaDevice::Multiply(const MatrixProduct& product) {
  if (blas_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(name().ToString(), " was made without products"));
  }
  return blas_->Multiply(stream(), allocator(), product);
}

absl::Status CudaDevice::Convolve(const Convolution& convolution) {
  if (dnn_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(name().ToString(), " was made without convolutions"));
  }
  return dnn_->Convolve(stream(), allocator(), convolution);
}

absl::Status CudaDevice::Sort(const PairSort& pairs) {
  if (sort_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(name().ToString(), " was made without sorts"));
  }
  return sort_->Sort(stream(), allocator(), pairs);
}

void CudaDevice::Take(const Detour* detour) { detour_here = detour; }

const CudaDevice::Detour* CudaDevice::DetourHere() const {
  return detour_here != nullptr && detour_here->device == this ? detour_here : nullptr;
}

std::unique_ptr<Recorder> CudaDevice::NewRecorder() { return std::make_unique<CudaRecorder>(*this); }

absl::Status CudaDevice::Noted(absl::Status status) {
  return SaysDeviceLost(status) ? health_->Lose(status.message()) : status;
}

absl::Status CudaDevice::EndStep(const PendingWork& step, bool has_failed) {
  const absl::Status found = Noted(checks_.EndStep(step, has_failed));
  return found.ok() && !has_failed ? health() : found;
}

absl::StatusOr<Tensor> CudaDevice::CopyIn(const Tensor& host, CopyDone done) {
  if (!IsPlainBytes(host.dtype())) return Share(host, done);
  WEIR_RETURN_IF_ERROR(health());
  absl::StatusOr<RefPtr<Buffer>> buffer = allocator_.Get(host.num_bytes());
  if (!buffer.ok()) return Noted(buffer.status());
  Tensor copy(host.dtype(), host.shape(), *std::move(buffer));
  WEIR_RETURN_IF_ERROR(CopyInto(host, copy));
  done(absl::OkStatus());
  return copy;
}

absl::Status CudaDevice::CopyInto(const Tensor& host, const Tensor& device) {
  return Noted(to_device_.CopyToDevice(const_cast<void*>(device.data()), host.data(), host.num_bytes()));
}

absl::StatusOr<Tensor> CudaDevice::CopyOut(const Tensor& device, CopyDone done) {
  if (!IsPlainBytes(device.dtype())) return Share(device, done);
  WEIR_RETURN_IF_ERROR(health());
  WEIR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(device.dtype(), device.shape()));
  const int64_t checked = checks_.Mark();
  absl::StatusOr<RefPtr<CudaEvent>> begin = stream_->Record();
  if (!begin.ok()) return Noted(begin.status());
  // The source is kept until the copy has ended: nobody gets its memory before.
  auto work = [this, checked, begin = *std::move(begin), from = device, to = copy,
               done = std::move(done)]() mutable {
    absl::Status status = Noted(CopyNow(*begin, from, to));
    // The copy may have waited for work that was aborted, which has left garbage. That was noted before.
    status.Update(health());
    if (status.ok()) checks_.NoteDone(checked);
    from = Tensor();  // who hears of the end finds its memory free
    done(status);
  };
  WEIR_RETURN_IF_ERROR(copies_out_.Add(std::move(work)));
  return copy;
}

absl::Status CudaDevice::CopyNow(const CudaEvent& begin, const Tensor& from, Tensor& to) {
  WEIR_RETURN_IF_ERROR(stream_to_host_->WaitFor(begin));
  return to_host_.CopyToHost(to.data(), from.data(), from.num_bytes());
}

absl::StatusOr<Tensor> CudaDevice::ReadBack(const Tensor& device) {
  WEIR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(device.dtype(), device.shape()));
  WEIR_RETURN_IF_ERROR(Noted(to_host_.CopyToHost(copy.data(), device.data(), device.num_bytes())));
  WEIR_RETURN_IF_ERROR(health());
  return copy;
}

absl::StatusOr<CudaDevices> MakeCudaDevices(CudaApi& api, absl::string_view job, int task,
                                            ThreadPool& threads, const CudaDeviceOptions& options) {
  CudaDevices made;
  const absl::StatusOr<int> count = api.NumDevices();
  if (absl::IsNotFound(count.status())) return made;
  WEIR_RETURN_IF_ERROR(count.status());
  for (int number = 0; number < *count && static_cast<int>(made.devices.size()) < options.most; ++number) {
    WEIR_ASSIGN_OR_RETURN(const CudaDeviceProperties properties, api.Properties(number));
    if (const std::string lack = WhyTooOld(properties); !lack.empty()) {
      made.left_out.push_back(absl::StrCat("GPU ", number, " (", properties.name, "): ", lack));
      continue;
    }
    DeviceAttributes attributes;
    attributes.name = MakeDeviceName(job, task, "GPU", static_cast<int>(made.devices.size()));
    attributes.incarnation = NewIncarnation(RealEnvironment());
    attributes.description = Describe(properties);
    attributes.memory_limit = options.memory_limit;
    if (options.memory_limit <= 0) {
      WEIR_ASSIGN_OR_RETURN(const CudaMemory memory, api.Memory(number));
      attributes.memory_limit = DefaultLimit(memory);
    }
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                          CudaDevice::Create(api, number, std::move(attributes), threads, options.compute));
    made.devices.push_back(std::move(device));
  }
  return made;
}

}  // namespace weir
