#include "ops/layers/batch_norm.h"

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/control_flow.h"
#include "ops/layers/layer_ends.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir::layers {
namespace {

constexpr absl::string_view kUpdateOps = "update_ops";

using Training = std::variant<bool, Output>;

// Where training is false an average must stay: it is updated by 0 of its difference from itself.
Output Decay(GraphBuilder& g, DType dtype, double momentum, const Training& training, SourceLocation where) {
  const Output decay = ConstOf(g, dtype, 1 - momentum, {.name = "decay"}, where);
  if (std::holds_alternative<bool>(training)) return decay;
  return SelectV2(g, std::get<Output>(training), decay, ConstOf(g, dtype, 0, {}, where), {}, where);
}

// average -= (1 - momentum) * (average - moment), beside the average.
void AddAverageUpdate(GraphBuilder& g, const ModelVariable& average, Output moment, double momentum,
                      const Training& training, SourceLocation where) {
  if (!g.ok()) return;
  const auto beside_average = g.ColocationScope(average.handle.node);
  const Output difference = Sub(g, average.value, moment, {}, where);
  const Output decay = Decay(g, average.dtype, momentum, training, where);
  Node* const update = AssignSubVariableOp(g, average.handle, Mul(g, difference, decay, {}, where),
                                           {.name = "AssignMovingAvg"}, where);
  if (update != nullptr) g.graph().collections()[std::string(kUpdateOps)].push_back(update->name());
}

// What normalizes x, and what the averages move to.
struct Normalized {
  Output y, mean, variance;
};

struct Parameters {
  Output gamma, beta;  // null where there is none
  ModelVariable mean, variance;
};

// One branch or both of them, as `training` asks.
Normalized Choose(GraphBuilder& g, const Training& training,
                  const std::function<Normalized(bool is_training)>& normalize, SourceLocation where) {
  if (const bool* const known = std::get_if<bool>(&training)) return normalize(*known);
  const auto branch = [&](bool is_training) {
    return [&normalize, is_training] {
      const Normalized result = normalize(is_training);
      return std::vector<Output>{result.y, result.mean, result.variance};
    };
  };
  const std::vector<Output> chosen =
      Cond(g, std::get<Output>(training), branch(true), branch(false), {}, where);
  return {chosen[0], chosen[1], chosen[2]};
}

Normalized Fused(GraphBuilder& g, Output x, const Parameters& p, bool is_training,
                 const BatchNormalizationOptions& options, SourceLocation where) {
  const Output none = Const(g, Tensor(DType::kFloat32, Shape({0})), {}, where);
  const FusedBatchNormV3Outputs fused = FusedBatchNormV3(
      g, x, p.gamma, p.beta, is_training ? none : p.mean.value, is_training ? none : p.variance.value,
      {.epsilon = static_cast<float>(options.epsilon),
       .data_format = options.data_format,
       .is_training = is_training},
      where);
  // Kernels need not give the averages back as they are.
  if (!is_training) return {fused.y, p.mean.value, p.variance.value};
  return {fused.y, fused.batch_mean, fused.batch_variance};
}

// `channels` numbers in a shape that broadcasts against x.
Output AlongChannels(GraphBuilder& g, Output channels, const Output& x, int channel_axis,
                     SourceLocation where) {
  if (channel_axis == x.shape().rank() - 1) return channels;
  std::vector<int32_t> dims(x.shape().rank(), 1);
  dims[channel_axis] = -1;
  return Reshape(g, channels, ConstIntegers(g, dims, {}, where), {}, where);
}

// x: of the variables' dtype.
Normalized Composed(GraphBuilder& g, Output x, int channel_axis, const Parameters& p, bool is_training,
                    double epsilon, SourceLocation where) {
  Normalized result = {{}, p.mean.value, p.variance.value};
  const auto spread = [&](Output channels) { return AlongChannels(g, channels, x, channel_axis, where); };
  if (is_training) {
    std::vector<int32_t> axes;
    for (int i = 0; i < x.shape().rank(); ++i) {
      if (i != channel_axis) axes.push_back(i);
    }
    result.mean = ReduceMean(g, x, axes, {}, where);
    const Output squares =
        SquaredDifference(g, x, StopGradient(g, spread(result.mean), {}, where), {}, where);
    result.variance = ReduceMean(g, squares, axes, {}, where);
  }
  const Output widened = AddV2(g, result.variance, ConstOf(g, x.dtype(), epsilon, {}, where), {}, where);
  Output factor = Rsqrt(g, widened, {}, where);
  if (p.gamma) factor = Mul(g, factor, p.gamma, {}, where);
  const Output shift = Mul(g, result.mean, factor, {}, where);
  const Output offset = p.beta ? Sub(g, p.beta, shift, {}, where) : Neg(g, shift, {}, where);
  result.y = AddV2(g, Mul(g, x, spread(factor), {}, where), spread(offset), {}, where);
  return result;
}

bool Fits(const Output& x, int channel_axis, const BatchNormalizationOptions& options) {
  return x.shape().rank() >= 2 && x.shape().dim(channel_axis) != PartialShape::kUnknownDim &&
         (options.data_format == "NHWC" || options.data_format == "NCHW") && options.momentum >= 0 &&
         options.momentum <= 1;
}

// gamma, beta and the averages, in the order of TensorFlow's.
Parameters MakeParameters(GraphBuilder& g, DType dtype, int64_t channels,
                          const BatchNormalizationOptions& options, SourceLocation where) {
  const auto add = [&](absl::string_view name, const Initializer& initializer,
                       const Regularizer& regularizer) {
    return AddWeight(g, name, dtype, {channels},
                     {initializer, regularizer, options.trainable, options.partitioner}, where);
  };
  const auto add_average = [&](absl::string_view name, const Initializer& initializer) {
    return MakeVariable(g, name, dtype, Shape({channels}), initializer, {.trainable = false}, where);
  };
  Parameters p;
  if (options.scale) p.gamma = add("gamma", options.gamma_initializer, options.gamma_regularizer);
  if (options.center) p.beta = add("beta", options.beta_initializer, options.beta_regularizer);
  p.mean = add_average("moving_mean", options.moving_mean_initializer);
  p.variance = add_average("moving_variance", options.moving_variance_initializer);
  return p;
}

// FusedBatchNormV3 wants both parameters: constants stand for those that the layer has not.
void FillParameters(GraphBuilder& g, int64_t channels, Parameters& p, SourceLocation where) {
  const auto constant = [&](float value) {
    return Fill(g, Const(g, Tensor::Vector<int64_t>({channels}), {}, where), Const(g, value, {}, where), {},
                where);
  };
  if (!p.gamma) p.gamma = constant(1);
  if (!p.beta) p.beta = constant(0);
}

}  // namespace

Output BatchNormalization(GraphBuilder& g, Output x, Training training,
                          const BatchNormalizationOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name);
  if (!HasInput(g, "BatchNormalization", x, where)) return {};
  const int channel_axis = options.data_format == "NCHW" ? 1 : x.shape().rank() - 1;
  if (!Fits(x, channel_axis, options)) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat(
            "BatchNormalization '", g.name_scope(),
            "': x must be [batch,...] of rank 2 or more with known channels (NHWC: the last dimension, "
            "NCHW: dimension 1), momentum from 0 to 1: x is ",
            x.shape().ToString(), " (", options.data_format, "), momentum is ", options.momentum)),
        where);
    return {};
  }
  if (!CheckFinite(g, absl::StrCat("BatchNormalization '", g.name_scope(), "'"),
                   {{"epsilon", options.epsilon}}, where)) {
    return {};
  }
  const int64_t channels = x.shape().dim(channel_axis);
  const DType dtype = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Parameters p = MakeParameters(g, dtype, channels, options, where);
  if (!g.ok()) return {};
  Normalized normalized;
  if (x.shape().rank() == 4 && dtype == DType::kFloat32) {
    FillParameters(g, channels, p, where);
    normalized = Choose(
        g, training, [&](bool is_training) { return Fused(g, x, p, is_training, options, where); }, where);
  } else {
    const Output wide = x.dtype() == dtype ? x : Cast(g, x, dtype, {}, where);
    normalized = Choose(
        g, training,
        [&](bool is_training) {
          return Composed(g, wide, channel_axis, p, is_training, options.epsilon, where);
        },
        where);
    if (x.dtype() != dtype) normalized.y = Cast(g, normalized.y, x.dtype(), {}, where);
  }
  const bool* const known = std::get_if<bool>(&training);
  if (known == nullptr || *known) {
    AddAverageUpdate(g, p.mean, normalized.mean, options.momentum, training, where);
    AddAverageUpdate(g, p.variance, normalized.variance, options.momentum, training, where);
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
