// The checks that every call which changes variables goes through (OpRecord::Update).
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kernels/device.h"
#include "kernels/kernel_registry.h"
#include "kernels/thread_pool.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {

class UpdateChecks {
 public:
  UpdateChecks();

  // Outputs and new values are those of the reference, on the CPU and on a fake GPU. A variable that nobody
  // reads keeps its buffer.
  absl::Status CheckAgainstReference(const OpCase& test) const;
  absl::Status CheckFakeGpu(const OpCase& test) const;
  // Where somebody holds the old values, these stay as they are, and the new ones are the same.
  absl::Status CheckReaders(const OpCase& test) const;
  // Where the graph knows the variables' types and the inputs' shapes, or nothing, inference accepts the call
  // and what it says of the outputs is true.
  absl::Status CheckShapes(const OpCase& test) const;
  // The graph written as a GraphDef and read again has the same attrs and changes the variables alike.
  absl::Status CheckSerialized(const OpCase& test) const;

 private:
  absl::Status CheckOn(Device& device, const KernelRegistry& kernels, const OpCase& test) const;

  mutable ThreadPool threads_{2};
  std::unique_ptr<Device> device_, gpu_;
  KernelRegistry kernels_, gpu_kernels_;
};

}  // namespace weir::conformance
