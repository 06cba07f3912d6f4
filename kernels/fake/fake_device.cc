#include "kernels/fake/fake_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/incarnation.h"

namespace weir {
namespace {

void CopyElements(const Tensor& from, Tensor& to) {
  if (from.dtype() == DType::kString) {
    std::copy_n(from.flat<std::string>().begin(), from.num_elements(), to.flat<std::string>().begin());
  } else if (!IsPlainBytes(from.dtype())) {
    std::copy_n(from.flat<ResourceHandle>().begin(), from.num_elements(), to.flat<ResourceHandle>().begin());
  } else if (from.num_bytes() > 0) {
    std::memcpy(to.data(), from.data(), from.num_bytes());
  }
}

}  // namespace

FakeDevice::FakeDevice(DeviceAttributes attributes, ThreadPool& threads,
                       std::shared_ptr<ProtectedMemory> memory)
    : Device(std::move(attributes), threads),
      memory_(std::move(memory)),
      allocator_(memory_ ? static_cast<Allocator&>(*memory_) : HostAllocator(),
                 this->attributes().memory_limit),
      host_allocator_(HostAllocator(), this->attributes().memory_limit) {}

absl::StatusOr<Tensor> FakeDevice::CopyIn(const Tensor& host, CopyDone done) {
  if (memory_ && !IsPlainBytes(host.dtype())) return Share(host, done);
  num_copies_in_.fetch_add(1, std::memory_order_relaxed);
  WEIR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(host.dtype(), host.shape(), allocator_));
  return Copy(host, std::move(copy), copies_in_, std::move(done));
}

absl::StatusOr<Tensor> FakeDevice::CopyOut(const Tensor& device, CopyDone done) {
  if (memory_ && !IsPlainBytes(device.dtype())) return Share(device, done);
  num_copies_out_.fetch_add(1, std::memory_order_relaxed);
  WEIR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(device.dtype(), device.shape(),
                                                      memory_ ? host_allocator_ : HostAllocator()));
  if (memory_) std::memset(copy.data(), kPoison, copy.num_bytes());
  return Copy(device, std::move(copy), copies_out_, std::move(done));
}

absl::StatusOr<Tensor> FakeDevice::Copy(const Tensor& from, Tensor to, SerialThread& copies, CopyDone done) {
  auto work = [this, from = Tensor(from), to, &copies, done = std::move(done)]() mutable {
    CopyNow(from, to, copies);
    from = Tensor();  // who hears of the end finds its memory free
    done(absl::OkStatus());
  };
  if (memory_ != nullptr && copies_ == FakeCopies::kLate) {
    WEIR_RETURN_IF_ERROR(copies.Add(std::move(work)));
  } else {
    work();
  }
  return to;
}

void FakeDevice::CopyNow(const Tensor& from, Tensor& to, const SerialThread& copies) {
  if (memory_ == nullptr) return CopyElements(from, to);
  if (&copies == &copies_out_) AwaitCopiesIn();
  {
    absl::MutexLock lock(&mutex_);
    const auto may_go_on = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !are_held_; };
    mutex_.Await(absl::Condition(&may_go_on));
  }
  const ProtectedMemory::Opening opening(*memory_);
  CopyElements(from, to);
}

void FakeDevice::HoldCopies(bool are_held) {
  absl::MutexLock lock(&mutex_);
  are_held_ = are_held;
}

std::unique_ptr<FakeDevice> MakeFakeDevice(absl::string_view job, int task, int index, ThreadPool& threads,
                                           int64_t memory_limit, FakeMemory memory) {
  DeviceAttributes attributes;
  attributes.name = MakeDeviceName(job, task, "GPU", index);
  attributes.memory_limit = memory_limit;
  attributes.incarnation = NewIncarnation(RealEnvironment());
  attributes.description = "fake device on host memory";
  return std::make_unique<FakeDevice>(std::move(attributes), threads,
                                      memory == FakeMemory::kProtected ? ProtectedMemory::Create() : nullptr);
}

}  // namespace weir
