#include "kernels/fake/fake_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/incarnation.h"

namespace weir {
namespace {

absl::StatusOr<Tensor> CopyInto(const Tensor& source, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(source.dtype(), source.shape(), allocator));
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

FakeDevice::FakeDevice(DeviceAttributes attributes, ThreadPool& threads)
    : Device(std::move(attributes), threads), allocator_(HostAllocator(), this->attributes().memory_limit) {}

absl::StatusOr<Tensor> FakeDevice::FromHost(const Tensor& host) {
  num_copies_.fetch_add(1, std::memory_order_relaxed);
  return CopyInto(host, allocator_);
}

absl::StatusOr<Tensor> FakeDevice::ToHost(const Tensor& device) {
  num_copies_.fetch_add(1, std::memory_order_relaxed);
  return CopyInto(device, HostAllocator());
}

std::unique_ptr<FakeDevice> MakeFakeDevice(absl::string_view job, int task, int index, ThreadPool& threads,
                                           int64_t memory_limit) {
  DeviceAttributes attributes;
  attributes.name = MakeDeviceName(job, task, "GPU", index);
  attributes.memory_limit = memory_limit;
  attributes.incarnation = NewIncarnation(RealEnvironment());
  attributes.description = "fake device on host memory";
  return std::make_unique<FakeDevice>(std::move(attributes), threads);
}

void RegisterFakeKernels(KernelRegistry& registry) { RegisterCpuKernels(registry, "GPU"); }

}  // namespace weir
