// A device: memory to allocate from, resources that live there, kernels that run there.
//
// A subclass per kind in kernels/<kind>/ (cpu, null, fake; adding one = copying null/). Owned by a Runtime,
// which outlives every step. Thread safety: all methods.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/types/allocator.h"
#include "graph/types/device_name.h"
#include "graph/types/tensor.h"
#include "kernels/memory_kind.h"
#include "kernels/resource_manager.h"
#include "kernels/thread_pool.h"

namespace weir {

struct DeviceAttributes {
  DeviceName name;           // whole
  int64_t memory_limit = 0;  // bytes; 0: unlimited
  uint64_t incarnation = 0;  // random, never 0; another after every restart of the process
  std::string description;   // for people
};

class Device {
 public:
  Device(DeviceAttributes attributes, ThreadPool& threads)
      : attributes_(std::move(attributes)),
        threads_(threads),
        resources_(attributes_.name.job.value_or("localhost")) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceAttributes& attributes() const { return attributes_; }
  const DeviceName& name() const { return attributes_.name; }
  // The kind of kernels it runs: "CPU", "GPU". Key of KernelRegistry.
  const std::string& type() const { return *attributes_.name.type; }

  // Where the elements of its kernels' tensors are, and where memory for them comes from.
  virtual MemoryKind memory_kind() const { return MemoryKind::kHost; }
  virtual Allocator& allocator() = 0;
  // For what its kernels keep on the host: the same where its memory is the host's.
  virtual Allocator& host_allocator() { return allocator(); }
  ResourceManager& resources() { return resources_; }
  ThreadPool& threads() { return threads_; }

  // Called once, when a copy has ended, from any thread and perhaps before the call that began it returns.
  // Must not wait. Never called when that call gives an error.
  using CopyDone = std::function<void(const absl::Status&)>;

  // A tensor in this device's memory with the elements of `host`, for kernels that begin after this has
  // returned. `host` must not change before the copy has ended. Shares the buffer where the device's memory
  // is the host's, and of elements that are always on the host (memory_kind.h).
  virtual absl::StatusOr<Tensor> CopyIn(const Tensor& host, CopyDone done) = 0;
  // A tensor in the host's memory that has the elements of `device` when the copy has ended, as the kernels
  // left them that ended before this call. Shares the buffer likewise.
  virtual absl::StatusOr<Tensor> CopyOut(const Tensor& device, CopyDone done) = 0;

  // The same, returning when the copy has ended. Not for threads that run steps.
  absl::StatusOr<Tensor> FromHost(const Tensor& host);
  absl::StatusOr<Tensor> ToHost(const Tensor& device);

 protected:
  // What CopyIn and CopyOut give where nothing is copied.
  static Tensor Share(const Tensor& tensor, const CopyDone& done) {
    done(absl::OkStatus());
    return tensor;
  }

 private:
  const DeviceAttributes attributes_;
  ThreadPool& threads_;
  ResourceManager resources_;
};

}  // namespace weir
