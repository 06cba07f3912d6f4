// The FunctionCaller of a worker: compiles bodies of functions into programs, and runs these.
//
// A call has a frame of its own, which later calls of the function use again. A program in which nothing
// waits runs on the thread of Run; others, and all that Start begins, run on the worker's threads.
//
// Contract, threads and errors: kernels/function_caller.h. Borrows the runtime and the threads.
#pragma once

#include <memory>
#include <string>

#include "kernels/function_caller.h"
#include "session/runtime.h"

namespace weir {

class FunctionRunner final : public FunctionCaller, public std::enable_shared_from_this<FunctionRunner> {
 public:
  FunctionRunner(Runtime& runtime, Threads& threads) : runtime_(runtime), threads_(threads) {}

  absl::StatusOr<std::shared_ptr<Function>> Prepare(const std::string& body, Device& device,
                                                    std::shared_ptr<FileSystem> files) override;
  Device* FindDevice(const DeviceName& name) const override { return runtime_.FindDevice(name); }
  const OpRegistry& ops() const override { return runtime_.ops(); }
  Environment& environment() override { return runtime_.environment(); }
  Threads& threads() override { return threads_; }
  Cancellation& end() override { return end_; }

 private:
  Runtime& runtime_;
  Threads& threads_;
  Cancellation end_;
};

}  // namespace weir
