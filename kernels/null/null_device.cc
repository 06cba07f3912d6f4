#include "kernels/null/null_device.h"

#include <utility>

#include "kernels/incarnation.h"

namespace weir {

std::unique_ptr<NullDevice> MakeNullDevice(absl::string_view job, int task, int index, ThreadPool& threads) {
  DeviceAttributes attributes;
  attributes.name = MakeDeviceName(job, task, "NULL", index);
  attributes.incarnation = NewIncarnation(RealEnvironment());
  attributes.description = "runs nothing";
  return std::make_unique<NullDevice>(std::move(attributes), threads);
}

}  // namespace weir
