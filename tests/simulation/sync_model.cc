#include "tests/simulation/sync_model.h"

#include <bit>
#include <memory>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "session/monitored/hooks/hooks.h"

namespace weir {

absl::StatusOr<SyncModel> SyncModel::Build(GraphBuilder& g, const TaskConfig& task, OnLoss on_loss) {
  SyncModel model;
  model.rank = task.is_chief() ? 0 : task.task_index() + 1;
  model.x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape(Shape())}});
  model.step = GlobalStep(g);
  model.a = MakeVariable(g, "a", Tensor::Scalar(1.0f));
  model.b = MakeVariable(g, "b", Tensor::Scalar(2.0f));
  const Output& a = model.a.value;
  const Output loss = Mul(g, model.x, AddV2(g, Square(g, a), Mul(g, a, Square(g, model.b.value))));
  auto optimizer = SyncReplicas(std::make_unique<GradientDescent>(0.01),
                                {.replicas_to_aggregate = task.num_workers(), .on_loss = on_loss});
  WEIR_ASSIGN_OR_RETURN(model.train, optimizer->Minimize(g, loss, model.step));
  return model;
}

absl::Status SyncModel::RunStep(MonitoredSession& session) const {
  return session.RunStepFn([this](MonitoredSession::StepContext& context) -> absl::Status {
    WEIR_ASSIGN_OR_RETURN(const auto now, context.session().Run({}, {step.value}));
    const auto batch = static_cast<float>((now[0].scalar<int64_t>() * 31 + rank * 17) % 23) / 7 - 1;
    return context.RunWithHooks({{x, Tensor::Scalar(batch)}}, {}, {train}).status();
  });
}

std::string DescribeWeights(int64_t step, float a, float b) {
  return absl::StrCat("step ", step, ", ", absl::Hex(std::bit_cast<uint32_t>(a)), " ",
                      absl::Hex(std::bit_cast<uint32_t>(b)));
}

}  // namespace weir
