// The checks that every OpCase goes through. Each returns OK, or an error that says what differs, where.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
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
  // Other devices give what the CPU gives; the null device gives tensors of the right types.
  absl::Status CheckOtherDevices(const OpCase& test) const;
  // Inferred shapes allow the real ones: with constants, known shapes, single dimensions unknown, ranks
  // unknown.
  absl::Status CheckShapes(const OpCase& test) const;
  // The gradient of a weighted sum of the outputs is what small changes of the inputs say.
  absl::Status CheckGradient(const OpCase& test) const;
  // It is the same where the graph knows no shapes and no axes when the gradient is built.
  absl::Status CheckGradientOfUnknown(const OpCase& test) const;
  // A graph written as GraphDef and read back gives the same outputs.
  absl::Status CheckSerialized(const OpCase& test) const;

  const KernelRegistry& cpu_kernels() const { return *cpu_.kernels; }

 private:
  mutable ThreadPool threads_{2};
  DeviceUnderTest cpu_;
  std::vector<DeviceUnderTest> others_;
  DeviceUnderTest null_;
};

}  // namespace weir::conformance
