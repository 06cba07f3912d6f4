// Batch normalisation as one op: FusedBatchNorm in its three versions.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// The image `input` and the axis of its channels.
struct Channels {
  PartialShape image;
  int axis;
  int64_t count;
};

absl::StatusOr<Channels> ChannelsOf(ShapeInference& s, int input) {
  const auto& format = s.attr<std::string>("data_format");
  const int rank = static_cast<int>(format.size());
  Channels channels;
  WEIR_ASSIGN_OR_RETURN(channels.image, s.WithRank(input, rank));
  channels.axis = static_cast<int>(format.find('C'));
  channels.count = channels.image.dim(channels.axis);
  return channels;
}

// Makes the channels those of the vector `input` too.
Status MergeVector(ShapeInference& s, int input, Channels& channels) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape vector, s.WithRank(input, 1));
  const auto merged = s.MergeDims(channels.count, vector.dim(0));
  if (!merged.ok()) {
    return InvalidArgumentError(StrCat(s.input_name(input), " must have one element for each channel of x, ",
                                       channels.image.ToString(), ", is ", vector.ToString()));
  }
  channels.count = *merged;
  return OkStatus();
}

Status SetImage(ShapeInference& s, const Channels& channels) {
  std::vector<int64_t> dims = DimsOf(channels.image);
  dims[channels.axis] = channels.count;
  return SetOutputDims(s, 0, dims);
}

Status BatchNormShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(Channels channels, ChannelsOf(s, 0));
  const bool uses_averages = !s.attr<bool>("is_training") || s.attr<float>("exponential_avg_factor") != 1;
  for (int i = 1; i < 5; ++i) {
    if (i < 3 || uses_averages) {
      WEIR_RETURN_IF_ERROR(MergeVector(s, i, channels));
    } else {
      WEIR_RETURN_IF_ERROR(s.WithRank(i, 1).status());  // often empty: not read
    }
  }
  for (int i = 1; i < 5; ++i) s.set_output(i, PartialShape({channels.count}));
  if (s.num_outputs() == 6) s.set_output(5, PartialShape(Shape()));  // on other devices it holds something
  return SetImage(s, channels);
}

Status BatchNormGradShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(Channels channels, ChannelsOf(s, 1));
  const auto image = channels.image.MergeWith(s.input(0));
  if (!image.ok()) {
    return InvalidArgumentError(
        StrCat("y_backprop is ", s.input(0).ToString(), " but x is ", s.input(1).ToString()));
  }
  channels.image = *image;
  channels.count = image->dim(channels.axis);
  for (int i = 2; i < 5; ++i) WEIR_RETURN_IF_ERROR(MergeVector(s, i, channels));
  for (int i = 1; i < 3; ++i) s.set_output(i, PartialShape({channels.count}));
  for (int i = 3; i < 5; ++i) s.set_output(i, PartialShape({0}));
  return SetImage(s, channels);
}

// In training by the moments that the op kept, else by the averages it was given.
Status BatchNormGradient(GradientContext& g) {
  if (!g.grad(0)) return OkStatus();  // the statistics get no gradient, as in TensorFlow
  const bool is_training = g.attr<bool>("is_training");
  std::vector<InputArg> inputs = {g.grad(0), g.input(0), g.input(1), is_training ? g.output(3) : g.input(3),
                                  is_training ? g.output(4) : g.input(4)};
  if (g.node().num_outputs() == 6) inputs.push_back(g.output(5));
  std::string op = g.node().op_name();
  op.insert(std::string("FusedBatchNorm").size(), "Grad");
  AttrMap attrs;
  for (const char* name : {"epsilon", "data_format", "is_training"}) attrs[name] = *g.node().FindAttr(name);
  Node* const gradient = g.graph().AddNode(op, std::move(inputs), std::move(attrs), "", g.node().source());
  for (int i = 0; i < 3 && gradient != nullptr; ++i) g.set_input_grad(i, gradient->output(i));
  return OkStatus();
}

// The gradients of batch normalization as a composition of ops, in the dtype of `scale`.
struct ComposedGradients {
  Output x, scale, offset;
};

ComposedGradients ComposeGradients(GradientContext& g, Output dy, Output x, Output scale) {
  const auto& format = g.attr<std::string>("data_format");
  const int rank = static_cast<int>(format.size()), channel_axis = static_cast<int>(format.find('C'));
  std::vector<int32_t> others, of_channels(rank, 1);
  for (int i = 0; i < rank; ++i) {
    if (i != channel_axis) others.push_back(i);
  }
  of_channels[channel_axis] = -1;
  const Output axes = g.Integers(others);
  const auto mean = [&](Output a) { return g.Add("Mean", {a, axes}, {{"keep_dims", true}}); };
  const auto per_channel = [&](Output a) { return Reshape(g, a, g.Integers(of_channels)); };

  const bool is_training = g.attr<bool>("is_training");
  const Output centered = Sub(g, x, is_training ? mean(x) : per_channel(g.input(3)));
  const Output variance = is_training ? mean(g.Add("Square", {centered})) : per_channel(g.input(4));
  const Output epsilon = g.Constant(scale.dtype(), g.attr<float>("epsilon"));
  const Output inverse = g.Add("Rsqrt", {Add(g, variance, epsilon)});
  const Output normalized = Mul(g, centered, inverse);
  Output slope = dy;
  if (is_training) {
    slope = Sub(g, Sub(g, dy, mean(dy)), Mul(g, normalized, mean(Mul(g, dy, normalized))));
  }
  return {Mul(g, Mul(g, per_channel(scale), inverse), slope), Sum(g, Mul(g, dy, normalized), axes),
          Sum(g, dy, axes)};
}

// The second derivative: that of the composition. Copies of the inputs cut it off from the rest of the graph,
// where y_backprop itself depends on x.
Status BatchNormGradGradient(GradientContext& g) {
  std::vector<Output> xs;
  for (int i = 0; i < 3; ++i) xs.push_back(g.Add("Identity", {g.input(i)}));
  const DType type = g.input(2).dtype(), image_type = g.input(1).dtype();
  const ComposedGradients composed = ComposeGradients(g, Cast(g, xs[0], type), Cast(g, xs[1], type), xs[2]);
  std::vector<Output> ys, grad_ys;
  const auto add = [&](int output, Output y) {
    if (!g.grad(output)) return;
    ys.push_back(y);
    grad_ys.push_back(g.grad(output));
  };
  add(0, Cast(g, composed.x, image_type));
  add(1, composed.scale);
  add(2, composed.offset);
  WEIR_RETURN_IF_ERROR(g.graph().status());
  WEIR_ASSIGN_OR_RETURN(const std::vector<Output> gradients,
                        AddGradients(g.graph(), ys, xs, grad_ys, g.node().source()));
  for (int i = 0; i < 3; ++i) g.set_input_grad(i, gradients[i]);
  return OkStatus();
}

OpDef BatchNorm(std::string name) {
  return {.name = std::move(name),
          .summary =
              "Gives every channel the mean `offset` and the standard deviation `scale`, and the moments "
              "that it had.",
          .infer_shapes = BatchNormShape,
          .gradient = BatchNormGradient};
}

OpDef BatchNormGrad(std::string name) {
  return {.name = std::move(name),
          .summary = "Gives the gradients of FusedBatchNorm with respect to x, scale and offset.",
          .infer_shapes = BatchNormGradShape,
          .gradient = BatchNormGradGradient};
}

}  // namespace

std::vector<OpDef> BatchNormOps() {
  return {
      BatchNorm("FusedBatchNorm"),           BatchNorm("FusedBatchNormV2"),
      BatchNorm("FusedBatchNormV3"),         BatchNormGrad("FusedBatchNormGrad"),
      BatchNormGrad("FusedBatchNormGradV2"), BatchNormGrad("FusedBatchNormGradV3"),
  };
}

}  // namespace weir
