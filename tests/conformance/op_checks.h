// The checks that every OpCase goes through. Each returns OK, or an error that says what differs, where.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/node.h"
#include "graph/types/tensor.h"
#include "kernels/device.h"
#include "kernels/kernel_registry.h"
#include "kernels/thread_pool.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {

// A device under test, with the kernels that run on it.
struct DeviceUnderTest {
  std::string name;
  std::unique_ptr<Device> device;
  std::unique_ptr<KernelRegistry> kernels;
};

class OpChecks {
 public:
  OpChecks();

  // The CPU's outputs are those of the reference; inputs stay as they are.
  absl::Status CheckAgainstReference(const OpCase& test) const;
  // With inputs that nobody needs any more (kernels may work in place) the outputs are the same.
  absl::Status CheckInPlace(const OpCase& test) const;
  // Inputs that are one tensor, in one slot or in two, give what equal tensors give.
  absl::Status CheckAliased(const OpCase& test) const;
  // Other devices give what the CPU gives; the null device gives tensors of the right types.
  absl::Status CheckOtherDevices(const OpCase& test) const;
  // Inferred shapes allow the real ones: with constants (then they are fully known, but for ops whose record
  // says otherwise), known shapes, single dimensions unknown, ranks unknown.
  absl::Status CheckShapes(const OpCase& test) const;
  // The gradient of a weighted sum of the outputs is what small changes of the inputs say, in double; in the
  // dtype of the call it is the one in double, rounded.
  absl::Status CheckGradient(const OpCase& test) const;
  // It is the same where the graph knows no shapes and no axes when the gradient is built.
  absl::Status CheckGradientOfUnknown(const OpCase& test) const;
  // A graph written as GraphDef and read back gives the same outputs.
  absl::Status CheckSerialized(const OpCase& test) const;

  const KernelRegistry& cpu_kernels() const { return *cpu_.kernels; }

 private:
  absl::Status CheckNumericGradient(const OpCase& exact) const;
  absl::StatusOr<std::vector<Tensor>> RunInSlots(const Node& node, std::vector<Tensor> slots,
                                                 const std::vector<int32_t>& input_slots, int32_t kept) const;

  mutable ThreadPool threads_{2};
  DeviceUnderTest cpu_;
  std::vector<DeviceUnderTest> others_;
  DeviceUnderTest null_;
};

}  // namespace weir::conformance
