// For tests: nodes that do what the test says when they run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/graph_builder.h"
#include "graph/runtime_ops.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"
#include "kernels/kernel.h"
#include "kernels/kernel_registry.h"
#include "ops/register_ops.h"

namespace weir {

class ActsTest : public testing::Test {
 protected:
  using Action = std::function<absl::Status(KernelContext&)>;

  // Stateful acts are neither folded nor merged.
  explicit ActsTest(bool is_stateful) {
    EXPECT_TRUE(RegisterOps(ops_).ok());
    EXPECT_TRUE(RegisterRuntimeOps(ops_).ok());
    EXPECT_TRUE(ops_.Register({.name = "Act",
                               .summary = "Does what the test says.",
                               .inputs = {"input: float"},
                               .outputs = {"output: float"},
                               .attrs = {"action: int", "may_block: bool"},
                               .is_stateful = is_stateful,
                               .infer_shapes = UnknownShape,
                               .gradient = NotDifferentiable})
                    .ok());
  }

  // For RuntimeOptions::register_kernels.
  static void RegisterAct(KernelRegistry& registry, absl::string_view device_type) {
    registry.Register({.op = "Act", .device_type = std::string(device_type), .create = CreateKernel<Act>});
  }

  Output Constant(float value) {
    return g_.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}});
  }
  Output AddAct(Output input, Action action, absl::string_view name = "") {
    actions_.push_back(std::make_unique<Action>(std::move(action)));
    return g_.AddOp("Act", {input},
                    {{"action", reinterpret_cast<int64_t>(actions_.back().get())}, {"may_block", may_block_}},
                    name);
  }

  bool may_block_ = false;  // of the acts to come
  OpRegistry ops_;
  GraphBuilder g_{ops_};

 private:
  // Passes its input on after it has done what the test says. The node's attr is where the test has its
  // action.
  class Act final : public Kernel {
   public:
    explicit Act(const KernelConstruction& construction)
        : action_(*reinterpret_cast<const Action*>(construction.attr<int64_t>("action"))),
          may_block_(construction.attr<bool>("may_block")) {}
    absl::Status Compute(KernelContext& context) override {
      context.set_output(0, context.input(0));
      return action_(context);
    }
    bool may_block() const override { return may_block_; }

   private:
    const Action& action_;
    const bool may_block_;
  };

  std::vector<std::unique_ptr<Action>> actions_;
};

}  // namespace weir
