// A device that runs nothing: the template to copy for a new kind of device (README.md beside this file).
//
// Type "NULL". Takes every op of a registry; outputs have the right types and shapes and undefined elements
// (plain bytes) or empty ones (strings, handles). What is left of a step's time on it is the cost of running
// the graph. Thread safety: all methods.
#pragma once

#include <memory>

#include "kernels/device.h"

namespace weir {

class NullDevice final : public Device {
 public:
  NullDevice(DeviceAttributes attributes, ThreadPool& threads) : Device(std::move(attributes), threads) {}

  Allocator& allocator() override { return HostAllocator(); }
  absl::StatusOr<Tensor> CopyIn(const Tensor& host, CopyDone done) override { return Share(host, done); }
  absl::StatusOr<Tensor> CopyOut(const Tensor& device, CopyDone done) override { return Share(device, done); }
};

// "/job:JOB/replica:0/task:TASK/device:NULL:INDEX" with a random incarnation.
std::unique_ptr<NullDevice> MakeNullDevice(absl::string_view job, int task, int index, ThreadPool& threads);

}  // namespace weir
