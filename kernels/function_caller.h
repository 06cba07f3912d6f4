// The functions that kernels call: what a dataset maps with, what makes an iterator's dataset.
//
// A node has the bodies of its functions as attrs (graph/function_bodies.h). A kernel asks its session's
// FunctionCaller to prepare one: the body is read, and compiled for the kernel's device. All of its nodes run
// there, whatever devices they ask for. What its nodes keep between calls (streams of random numbers) belongs
// to the prepared function.
//
// Threads: Run may wait and must be called from a thread that may (Kernel::may_block); Start never waits, and
// computes on the threads that run steps. Both may be called from many threads at once.
//
// Ownership: a function is shared and may outlive the session and the plan that it was prepared for (an
// iterator does), but not the device and the threads. `cancellation` is borrowed until the call is over.
//
// Errors of Prepare: InvalidArgument or NotFound for a body that cannot be read, or has ops or dtypes without
// a kernel; ResourceExhausted for constants above kMaxConstantBytes. Of a call: InvalidArgument for arguments
// that do not fit; the first kernel's error; the cancellation's reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"
#include "kernels/device.h"
#include "kernels/environment.h"

namespace weir {

class FileSystem;  // kernels/formats/file_system.h
class OpRegistry;  // graph/op_registry.h

class Function {
 public:
  using Results = absl::StatusOr<std::vector<Tensor>>;
  using Done = std::function<void(Results)>;

  virtual ~Function() = default;

  virtual const std::vector<DType>& argument_types() const = 0;
  virtual const std::vector<DType>& result_types() const = 0;

  virtual Results Run(std::vector<Tensor> arguments, Cancellation& cancellation) = 0;
  // `done` is called exactly once, from any thread, and must be short.
  virtual void Start(std::vector<Tensor> arguments, Cancellation& cancellation, Done done) = 0;
};

class FunctionCaller {
 public:
  static constexpr int64_t kMaxConstantBytes = int64_t{256} << 20;  // of one body

  virtual ~FunctionCaller() = default;

  // `files`: what its nodes may read and write; null: all of this machine's.
  virtual absl::StatusOr<std::shared_ptr<Function>> Prepare(const std::string& body, Device& device,
                                                            std::shared_ptr<FileSystem> files) = 0;

  // The worker's device of that whole name; null when there is none.
  virtual Device* FindDevice(const DeviceName& name) const = 0;
  // What nodes of bodies may be.
  virtual const OpRegistry& ops() const = 0;
  virtual Environment& environment() = 0;
  // The threads that run the worker's steps. Only from a kernel, or from work that it gave them.
  virtual Threads& threads() = 0;
  // Cancelled when the worker ends: what runs beside steps must end soon after.
  virtual Cancellation& end() = 0;
};

}  // namespace weir
