// For tests of kernels: one node with its kernel on a CPU device of its own, run with given tensors.
//
//   TestHost host({RegisterNnKernels});
//   KernelUnderTest relu(host, "Relu", {DType::kFloat32});
//   std::vector<Tensor> outputs = relu.Run({Tensor::Vector<float>({-1, 2})}).value();
//
// The graph knows no shapes: what does not fit is the kernel's to refuse. The TestHost says which kernels
// there are. Type attrs that the inputs determine may be left out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/attr_value.h"
#include "graph/graph.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"
#include "kernels/device.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel.h"
#include "kernels/kernel_registry.h"

namespace weir {

// A device with two threads, kernels that the kernels under test share, as in one process.
class TestHost {
 public:
  using Family = void (*)(DeviceKernels&);
  // memory_limit > 0: bytes that outputs and temporaries may take; the inputs come from elsewhere.
  explicit TestHost(std::initializer_list<Family> families, int64_t memory_limit = 0);
  ~TestHost();

  Device& device() { return *device_; }
  const KernelRegistry& kernels() const { return kernels_; }

 private:
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<Device> device_;
  KernelRegistry kernels_;
};

class KernelUnderTest {
 public:
  // The inputs' types; those from `list_from` on form one list argument.
  KernelUnderTest(TestHost& host, const std::string& op, std::vector<DType> inputs, AttrMap attrs = {},
                  const std::string& name = "node", int list_from = -1);
  ~KernelUnderTest();

  // Whether the kernel could be made.
  const absl::Status& status() const { return status_; }

  // One step. Every input's slot is its last use: a buffer that only `inputs` holds may be reused. Thread
  // safe. Without `cancellation` the step has one of its own.
  absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> inputs, Cancellation* cancellation = nullptr);
  // The only output of a run that must succeed.
  Tensor Get(std::vector<Tensor> inputs);

 private:
  TestHost& host_;
  std::unique_ptr<Graph> graph_;
  Node* node_ = nullptr;
  std::unique_ptr<Kernel> kernel_;
  absl::Status status_;
};

}  // namespace weir
