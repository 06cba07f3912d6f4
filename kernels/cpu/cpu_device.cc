#include "kernels/cpu/cpu_device.h"

#include <utility>

#include "kernels/incarnation.h"

namespace weir {

CpuDevice::CpuDevice(DeviceAttributes attributes, ThreadPool& threads)
    : Device(std::move(attributes), threads) {
  if (this->attributes().memory_limit > 0) {
    limited_ = std::make_unique<MeteredAllocator>(HostAllocator(), this->attributes().memory_limit);
  }
  allocator_ = limited_ ? limited_.get() : &HostAllocator();
}

std::unique_ptr<CpuDevice> MakeCpuDevice(absl::string_view job, int task, int index, ThreadPool& threads,
                                         int64_t memory_limit) {
  DeviceAttributes attributes;
  attributes.name = MakeDeviceName(job, task, "CPU", index);
  attributes.memory_limit = memory_limit;
  attributes.incarnation = NewIncarnation(RealEnvironment());
  attributes.description = "host processor";
  return std::make_unique<CpuDevice>(std::move(attributes), threads);
}

}  // namespace weir
