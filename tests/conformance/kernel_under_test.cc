#include "tests/conformance/kernel_under_test.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/register_ops.h"

namespace weir {
TestHost::TestHost(std::initializer_list<Family> families, int64_t memory_limit)
    : threads_(std::make_unique<ThreadPool>(2)),
      device_(MakeCpuDevice("localhost", 0, 0, *threads_, memory_limit)) {
  DeviceKernels kernels(kernels_, "CPU");
  for (Family family : families) family(kernels);
}

TestHost::~TestHost() = default;

KernelUnderTest::KernelUnderTest(TestHost& host, const std::string& op, std::vector<DType> inputs,
                                 AttrMap attrs, const std::string& name, int list_from)
    : host_(host), graph_(std::make_unique<Graph>(StandardOps())) {
  NodeSpec spec;
  spec.op = op;
  spec.name = name;
  spec.attrs = std::move(attrs);
  std::vector<Output> list;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NodeSpec source;
    source.op = "Placeholder";
    source.name = absl::StrCat("input", i);
    source.attrs = {{"dtype", inputs[i]}};
    const Output output = graph_->AddNode(std::move(source)).value()->output(0);
    if (list_from < 0 || static_cast<int>(i) < list_from) {
      spec.inputs.push_back(output);
    } else {
      list.push_back(output);
    }
  }
  if (list_from >= 0) spec.inputs.push_back(std::move(list));
  absl::StatusOr<Node*> node = graph_->AddNode(std::move(spec));
  EXPECT_TRUE(node.ok()) << node.status();
  if (!node.ok()) {
    status_ = node.status();
    return;
  }
  node_ = *node;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = host.kernels().Create(*node_, host.device());
  status_ = kernel.status();
  if (kernel.ok()) kernel_ = *std::move(kernel);
}

KernelUnderTest::~KernelUnderTest() = default;

absl::StatusOr<std::vector<Tensor>> KernelUnderTest::Run(std::vector<Tensor> inputs,
                                                         Cancellation* cancellation) {
  WEIR_RETURN_IF_ERROR(status_);
  const int num_inputs = node_->num_inputs();
  EXPECT_EQ(static_cast<int>(inputs.size()), num_inputs);
  std::vector<int32_t> input_slots(num_inputs);
  for (int i = 0; i < num_inputs; ++i) {
    EXPECT_EQ(inputs[i].dtype(), node_->input_type(i)) << "input " << i;
    input_slots[i] = i;
  }
  const auto last_use = std::make_unique<bool[]>(num_inputs + 1);
  std::fill_n(last_use.get(), num_inputs, true);
  std::vector<Tensor> slots = std::move(inputs);
  slots.resize(num_inputs + node_->num_outputs());
  Cancellation own;
  StepContext step;
  step.cancellation = cancellation == nullptr ? &own : cancellation;
  KernelContext context(step, host_.device(), slots.data(), input_slots.data(), last_use.get(), num_inputs,
                        num_inputs, node_->output_types().data(), node_->num_outputs());
  WEIR_RETURN_IF_ERROR(kernel_->Compute(context));
  return std::vector<Tensor>(slots.begin() + num_inputs, slots.end());
}

Tensor KernelUnderTest::Get(std::vector<Tensor> inputs) {
  absl::StatusOr<std::vector<Tensor>> outputs = Run(std::move(inputs));
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() && !outputs->empty() ? (*outputs)[0] : Tensor();
}

}  // namespace weir
