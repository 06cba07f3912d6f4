#include "ops/layers/batch_norm.h"

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir::layers {
namespace {

constexpr absl::string_view kUpdateOps = "update_ops";

// average -= (1 - momentum) * (average - moment), beside the average.
void AddAverageUpdate(GraphBuilder& g, const ModelVariable& average, Output moment, double momentum,
                      SourceLocation where) {
  if (!g.ok()) return;
  const auto beside_average = g.ColocationScope(average.handle.node);
  const Output difference = Sub(g, average.value, moment, {}, where);
  const Output decay = ConstOf(g, DType::kFloat32, 1 - momentum, {.name = "decay"}, where);
  Node* const update = AssignSubVariableOp(g, average.handle, Mul(g, difference, decay, {}, where),
                                           {.name = "AssignMovingAvg"}, where);
  if (update != nullptr) g.graph().collections()[std::string(kUpdateOps)].push_back(update->name());
}

}  // namespace

Output BatchNormalization(GraphBuilder& g, Output x, bool is_training,
                          const BatchNormalizationOptions& options, SourceLocation where) {
  if (!x) return {};
  const auto scope = g.NameScope(options.name);
  const int channel_axis = options.data_format == "NCHW" ? 1 : 3;
  if (x.shape().rank() != 4 || x.shape().dim(channel_axis) == PartialShape::kUnknownDim ||
      !(options.momentum >= 0 && options.momentum <= 1)) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   "BatchNormalization '", g.name_scope(), "': x must be images with known channels (",
                   options.data_format, "), momentum from 0 to 1: x is ", x.shape().ToString(),
                   ", momentum is ", options.momentum)),
               where);
    return {};
  }
  const Shape channels({x.shape().dim(channel_axis)});
  const auto variable = [&](absl::string_view name, const Initializer& initializer, bool trainable) {
    return MakeVariable(g, name, DType::kFloat32, channels, initializer, {.trainable = trainable}, where);
  };
  const ModelVariable gamma = variable("gamma", initializers::Ones(), true);
  const ModelVariable beta = variable("beta", initializers::Zeros(), true);
  const ModelVariable mean = variable("moving_mean", initializers::Zeros(), false);
  const ModelVariable variance = variable("moving_variance", initializers::Ones(), false);
  const Output none = Const(g, Tensor(DType::kFloat32, Shape({0})), {}, where);
  const FusedBatchNormV3Outputs normalized = FusedBatchNormV3(
      g, x, gamma.value, beta.value, is_training ? none : mean.value, is_training ? none : variance.value,
      {.epsilon = static_cast<float>(options.epsilon),
       .data_format = options.data_format,
       .is_training = is_training},
      where);
  if (is_training) {
    AddAverageUpdate(g, mean, normalized.batch_mean, options.momentum, where);
    AddAverageUpdate(g, variance, normalized.batch_variance, options.momentum, where);
  }
  return normalized.y;
}

std::vector<Node*> UpdateOps(GraphBuilder& g) {
  std::vector<Node*> nodes;
  const auto& collections = g.graph().collections();
  const auto found = collections.find(std::string(kUpdateOps));
  if (found == collections.end()) return nodes;
  for (const std::string& name : found->second) {
    if (Node* const node = g.graph().FindNode(name)) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace weir::layers
