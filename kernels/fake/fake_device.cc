#include "kernels/fake/fake_device.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/incarnation.h"

namespace weir {
namespace {

absl::StatusOr<Tensor> CopyInto(const Tensor& source, Allocator& allocator, ProtectedMemory* memory) {
  WEIR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(source.dtype(), source.shape(), allocator));
  std::optional<ProtectedMemory::Opening> opening;
  if (memory != nullptr) opening.emplace(*memory);
  if (source.dtype() == DType::kString) {
    std::copy_n(source.flat<std::string>().begin(), source.num_elements(), copy.flat<std::string>().begin());
  } else if (!IsPlainBytes(source.dtype())) {
    std::copy_n(source.flat<ResourceHandle>().begin(), source.num_elements(),
                copy.flat<ResourceHandle>().begin());
  } else if (source.num_bytes() > 0) {
    std::memcpy(copy.data(), source.data(), source.num_bytes());
  }
  return copy;
}

}  // namespace

FakeDevice::FakeDevice(DeviceAttributes attributes, ThreadPool& threads,
                       std::shared_ptr<ProtectedMemory> memory)
    : Device(std::move(attributes), threads),
      memory_(std::move(memory)),
      allocator_(memory_ ? static_cast<Allocator&>(*memory_) : HostAllocator(),
                 this->attributes().memory_limit),
      host_allocator_(HostAllocator(), this->attributes().memory_limit) {}

absl::StatusOr<Tensor> FakeDevice::FromHost(const Tensor& host) {
  if (memory_ && !IsPlainBytes(host.dtype())) return host;
  num_copies_in_.fetch_add(1, std::memory_order_relaxed);
  return CopyInto(host, allocator_, memory_.get());
}

absl::StatusOr<Tensor> FakeDevice::ToHost(const Tensor& device) {
  if (memory_ && !IsPlainBytes(device.dtype())) return device;
  num_copies_out_.fetch_add(1, std::memory_order_relaxed);
  return CopyInto(device, memory_ ? host_allocator_ : HostAllocator(), memory_.get());
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
