// A kernel: what one node does on one device, made once per node when its step is compiled.
//
// Compute may run on several steps at once, so a kernel's own state is read-only after construction or
// synchronised. An error needs no name of the node or device: the executor adds them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/node.h"
#include "kernels/device.h"
#include "kernels/kernel_context.h"

namespace weir {

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Reads context.input(i), sets every output. Runs to its end without waiting for other nodes or machines
  // (but see may_block).
  virtual absl::Status Compute(KernelContext& context) = 0;

  // Null unless the kernel waits for something (a queue, another machine).
  virtual class AsyncKernel* AsAsync() { return nullptr; }

  // True for a kernel that runs also when an input is dead (context.is_dead()), because it passes deadness on
  // to where the executor cannot see it. Every other one is left out then, and its outputs are dead.
  virtual bool runs_when_dead() const { return false; }

  // True for a kernel whose Compute waits for the world outside (a slow file system, a process). It runs on a
  // thread that may wait, and must return soon after context.cancellation() is cancelled.
  virtual bool may_block() const { return false; }
};

// Starts its work and returns; `done` is called exactly once, from any thread, when the outputs are set or
// the error known. Must finish soon after context.cancellation() is cancelled.
class AsyncKernel : public Kernel {
 public:
  using Done = std::function<void(absl::Status)>;
  virtual void ComputeAsync(KernelContext& context, Done done) = 0;
  absl::Status Compute(KernelContext&) final {
    return absl::InternalError("asynchronous kernel run as a synchronous one");
  }
  AsyncKernel* AsAsync() final { return this; }
};

class SessionState;

// What a kernel is made from. Borrowed during construction only: copy what Compute needs.
class KernelConstruction {
 public:
  KernelConstruction(const Node& node, Device& device, SessionState* session = nullptr)
      : node_(node), device_(device), session_(session) {}

  const Node& node() const { return node_; }
  Device& device() const { return device_; }  // outlives the kernel
  // What the node keeps for the whole session (kernels/session_state.h). Null outside of one.
  SessionState* session() const { return session_; }
  // Precondition: the schema has an attr of that name and type.
  template <typename T>
  const T& attr(absl::string_view name) const {
    return node_.attr<T>(name);
  }
  DType input_type(int index) const { return node_.input_type(index); }
  DType output_type(int index) const { return node_.output_type(index); }

 private:
  const Node& node_;
  Device& device_;
  SessionState* const session_;
};

}  // namespace weir
