// Ops of neural networks: activations, bias, softmax and its losses, convolution, pooling.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

bool ChannelsAreFirst(const AttrMap& attrs) { return attrs.at("data_format").get<std::string>() != "NHWC"; }

// ---- Bias ----

// The axis of the channels in a tensor of that rank.
int ChannelAxis(const AttrMap& attrs, int rank) { return ChannelsAreFirst(attrs) ? 1 : rank - 1; }

// ---- Softmax ----

Output SumOfRows(GradientContext& g, Output a) { return Sum(g, a, g.Integers({-1}), /*keep_dims=*/true); }

// p * (d - sum(d * p)): from the gradient d of a softmax p to that of its logits.
Output SoftmaxBack(GradientContext& g, Output d, Output p) {
  return Mul(g, Sub(g, d, SumOfRows(g, Mul(g, d, p))), p);
}

Status RowsShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape logits, s.WithRankAtLeast(0, 1));
  s.set_output(0, std::move(logits));
  return OkStatus();
}

// The gradient of both losses with respect to their logits. Output 1 of the node is the derivative of the
// loss.
Output CrossEntropyBack(GradientContext& g) {
  const Output logits = g.input(0);
  Output result;
  if (g.grad(0)) {
    const Output per_row = g.Add("ExpandDims", {g.grad(0), g.Constant(DType::kInt32, -1)});
    result = Mul(g, per_row, g.output(1));
  }
  if (g.grad(1)) {  // somebody differentiates twice
    const Output second = SoftmaxBack(g, g.grad(1), g.Add("Softmax", {logits}));
    result = result ? Add(g, result, second) : second;
  }
  return result;
}

// ---- Windows over images ----

// Where batch, channels, height and width stand in a four-dimensional image and in strides and the like.
struct ImageAxes {
  int batch = 0;
  int channels = 3;
  int spatial[2] = {1, 2};
};

ImageAxes AxesOf(const AttrMap& attrs) {
  return ChannelsAreFirst(attrs) ? ImageAxes{.channels = 1, .spatial = {2, 3}} : ImageAxes{};
}

// A list attr with one element per axis of the image, which must be 1 for batch and, if asked, channels.
absl::StatusOr<std::vector<int64_t>> PerAxis(const AttrMap& attrs, absl::string_view name) {
  const auto& values = attrs.find(name)->second.get<std::vector<int64_t>>();
  const ImageAxes axes = AxesOf(attrs);
  if (values.size() != 4 || values[axes.batch] != 1 || values[axes.channels] != 1) {
    return InvalidArgumentError(StrCat("attr ", name, " must have 4 elements, 1 for batch and channels, is [",
                                       absl::StrJoin(values, ","), "] (",
                                       attrs.at("data_format").get<std::string>(), ")"));
  }
  return values;
}

Status CheckExplicitPaddings(const AttrMap& attrs) {
  const auto found = attrs.find("explicit_paddings");
  if (found == attrs.end()) return OkStatus();
  const bool is_explicit = attrs.at("padding").get<std::string>() == "EXPLICIT";
  const size_t count = found->second.get<std::vector<int64_t>>().size();
  if (count == (is_explicit ? 8 : 0)) return OkStatus();
  return InvalidArgumentError(StrCat(
      "attr explicit_paddings must have 8 elements with padding EXPLICIT and none without, has ", count));
}

// Output height and width of a window that slides over `input`.
absl::StatusOr<std::vector<int64_t>> SlideOverImage(const AttrMap& attrs, const PartialShape& input,
                                                    const int64_t (&window)[2],
                                                    absl::Span<const int64_t> dilations) {
  WEIR_RETURN_IF_ERROR(CheckExplicitPaddings(attrs));
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, PerAxis(attrs, "strides"));
  const std::string& padding = attrs.at("padding").get<std::string>();
  const ImageAxes axes = AxesOf(attrs);
  std::vector<int64_t> sizes;
  for (int i = 0; i < 2; ++i) {
    const int axis = axes.spatial[i];
    int64_t before = 0, after = 0;
    if (padding == "EXPLICIT") {
      const auto& paddings = attrs.at("explicit_paddings").get<std::vector<int64_t>>();
      before = paddings[2 * axis];
      after = paddings[2 * axis + 1];
    }
    const auto extent =
        SlideWindow(input.dim(axis), window[i], strides[axis], dilations[axis], padding, before, after);
    if (!extent.ok()) {
      return InvalidArgumentError(
          StrCat(i == 0 ? "height" : "width", " of ", input.ToString(), ": ", extent.status().message()));
    }
    sizes.push_back(extent->size);
  }
  return sizes;
}

absl::StatusOr<PartialShape> ImageShape(const AttrMap& attrs, int64_t batch,
                                        absl::Span<const int64_t> spatial, int64_t channels) {
  const ImageAxes axes = AxesOf(attrs);
  std::vector<int64_t> dims(4);
  dims[axes.batch] = batch;
  dims[axes.channels] = channels;
  for (int i = 0; i < 2; ++i) dims[axes.spatial[i]] = spatial[i];
  return PartialShape::FromDims(dims);
}

// The attrs that a convolution and its two gradients share.
AttrMap SameConv(GradientContext& g) {
  AttrMap attrs;
  for (const char* name :
       {"strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations"}) {
    attrs[name] = *g.node().FindAttr(name);
  }
  return attrs;
}

// The output of convolving `input` with `filter`, whose dimensions are height, width, channels in, channels
// out.
absl::StatusOr<PartialShape> ConvShape(const AttrMap& attrs, const PartialShape& input,
                                       const PartialShape& filter) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> dilations, PerAxis(attrs, "dilations"));
  const ImageAxes axes = AxesOf(attrs);
  const int64_t channels = input.dim(axes.channels), filter_channels = filter.dim(2);
  const bool groups_fit = channels == kUnknown || filter_channels == kUnknown ||
                          (filter_channels > 0 && channels % filter_channels == 0);
  if (!groups_fit) {
    return InvalidArgumentError(
        StrCat("channels differ: input is ", input.ToString(), ", filter is ", filter.ToString()));
  }
  const int64_t window[2] = {filter.dim(0), filter.dim(1)};
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> spatial, SlideOverImage(attrs, input, window, dilations));
  return ImageShape(attrs, input.dim(axes.batch), spatial, filter.dim(3));
}

Status Conv2DGradient(GradientContext& g) {
  const Output input = g.input(0), filter = g.input(1);
  const AttrMap attrs = SameConv(g);
  g.set_input_grad(0, g.Add("Conv2DBackpropInput", {ShapeOf(g, input), filter, g.grad(0)}, attrs));
  g.set_input_grad(1, g.Add("Conv2DBackpropFilter", {input, ShapeOf(g, filter), g.grad(0)}, attrs));
  return OkStatus();
}

// The gradient that came back must have the shape of the forward convolution's output.
Status CheckBackprop(ShapeInference& s, const PartialShape& input, const PartialShape& filter) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape backprop, s.WithRank(2, 4));
  if (input.rank() != 4 || filter.rank() != 4) {
    return InvalidArgumentError(StrCat("sizes must describe a tensor of rank 4, are ",
                                       (input.rank() != 4 ? input : filter).ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const PartialShape expected, ConvShape(s.attrs(), input, filter));
  if (backprop.IsCompatibleWith(expected)) return OkStatus();
  return InvalidArgumentError(
      StrCat("out_backprop must be ", expected.ToString(), ", is ", backprop.ToString()));
}

// ---- Pooling ----

AttrMap SamePool(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "explicit_paddings", "data_format"}) {
    if (const AttrValue* value = g.node().FindAttr(name)) attrs[name] = *value;
  }
  return attrs;
}

absl::StatusOr<PartialShape> PooledShape(const AttrMap& attrs, const PartialShape& input) {
  if (attrs.at("data_format").get<std::string>() == "NCHW_VECT_C") {
    return absl::UnimplementedError(
        "data_format NCHW_VECT_C is for quantized tensors, which Weir does not have");
  }
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> ksize, PerAxis(attrs, "ksize"));
  const ImageAxes axes = AxesOf(attrs);
  const int64_t window[2] = {ksize[axes.spatial[0]], ksize[axes.spatial[1]]};
  const int64_t no_dilation[4] = {1, 1, 1, 1};
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> spatial,
                        SlideOverImage(attrs, input, window, no_dilation));
  return ImageShape(attrs, input.dim(axes.batch), spatial, input.dim(axes.channels));
}

Status PoolShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
  WEIR_ASSIGN_OR_RETURN(PartialShape pooled, PooledShape(s.attrs(), input));
  s.set_output(0, std::move(pooled));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> NnOps() {
  return {

      // ---- Activations ----
      {.name = "Relu",
       .summary = "Gives max(features, 0).",
       .is_elementwise = true,
       .infer_shapes = UnchangedShape,
       .gradient = [](GradientContext& g) -> Status {
         // The activation is positive where the feature was; so the features need not be kept.
         g.set_input_grad(0, g.Add("ReluGrad", {g.grad(0), g.output(0)}));
         return OkStatus();
       }},
      {.name = "ReluGrad",
       .summary = "Gives gradients where features > 0, else 0: the gradient of Relu.",
       .is_elementwise = true,
       .infer_shapes = MergedShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("ReluGrad", {g.grad(0), g.input(1)}));
         return OkStatus();
       }},

      // ---- Bias ----
      {.name = "BiasAdd",
       .summary = "Adds bias[c] to all elements of channel c.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape value, s.WithRankAtLeast(0, 2));
         WEIR_ASSIGN_OR_RETURN(const PartialShape bias, s.WithRank(1, 1));
         if (!value.has_rank()) return OkStatus();
         const int axis = ChannelAxis(s.attrs(), value.rank());
         const auto channels = s.MergeDims(value.dim(axis), bias.dim(0));
         if (!channels.ok()) {
           return InvalidArgumentError(
               StrCat("channels differ: value is ", value.ToString(), ", bias is ", bias.ToString()));
         }
         std::vector<int64_t> dims = DimsOf(value);
         dims[axis] = *channels;
         return SetOutputDims(s, 0, dims);
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.grad(0));
         g.set_input_grad(
             1, g.Add("BiasAddGrad", {g.grad(0)}, {{"data_format", g.attr<std::string>("data_format")}}));
         return OkStatus();
       }},
      {.name = "BiasAddGrad",
       .summary = "Adds up the elements of every channel: the gradient of BiasAdd's bias.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape value, s.WithRankAtLeast(0, 2));
         s.set_output(0, PartialShape({value.has_rank() ? value.dim(ChannelAxis(s.attrs(), value.rank()))
                                                        : kUnknown}));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         Output bias = g.grad(0);
         if (ChannelsAreFirst(g.node().attrs())) {
           // [1, channels, 1...], as many dimensions as the input has.
           const Output inner_rank = Sub(g, g.Add("Rank", {g.input(0)}), g.Constant(DType::kInt32, 2));
           const Output ones =
               g.Add("Fill", {Reshape(g, inner_rank, g.Integers({1})), g.Constant(DType::kInt32, 1)});
           const std::vector<Output> dims = {g.Integers({1, -1}), ones};
           bias = Reshape(g, bias, g.Add("ConcatV2", {dims, g.Constant(DType::kInt32, 0)}));
         }
         g.set_input_grad(0, BroadcastTo(g, bias, ShapeOf(g, g.input(0))));
         return OkStatus();
       }},

      // ---- Softmax ----
      {.name = "Softmax",
       .summary = "Gives exp(logits) / sum(exp(logits)), along the last axis.",
       .infer_shapes = RowsShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, SoftmaxBack(g, g.grad(0), g.output(0)));
         return OkStatus();
       }},
      {.name = "LogSoftmax",
       .summary = "Gives logits - log(sum(exp(logits))), along the last axis.",
       .infer_shapes = RowsShape,
       .gradient = [](GradientContext& g) -> Status {
         const Output softmax = g.Add("Exp", {g.output(0)});
         g.set_input_grad(0, Sub(g, g.grad(0), Mul(g, SumOfRows(g, g.grad(0)), softmax)));
         return OkStatus();
       }},
      {.name = "SoftmaxCrossEntropyWithLogits",
       .summary =
           "Gives, for every row, the cross entropy of the labels' distribution and softmax(features), and "
           "its "
           "derivative.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         auto both = ShapeInference::Broadcast(s.input(0), s.input(1));
         const bool is_matrix = both.ok() && (!both->has_rank() || both->rank() == 2);
         if (!is_matrix) {
           return InvalidArgumentError(StrCat("features and labels must be [batch,classes]: features is ",
                                              s.input(0).ToString(), ", labels is ", s.input(1).ToString()));
         }
         s.set_output(0, PartialShape({both->has_rank() ? both->dim(0) : kUnknown}));
         s.set_output(1, both->has_rank() ? *both : PartialShape::OfRank(2));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         Output labels;
         if (g.grad(0)) {
           const Output per_row = g.Add("ExpandDims", {g.grad(0), g.Constant(DType::kInt32, -1)});
           labels = Neg(g, Mul(g, per_row, g.Add("LogSoftmax", {g.input(0)})));
         }
         return SetBroadcastGradients(g, CrossEntropyBack(g), labels);
       }},
      {.name = "SparseSoftmaxCrossEntropyWithLogits",
       .summary = "Gives, for every row, -log softmax(features)[label], and its derivative.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape features, s.WithRank(0, 2));
         WEIR_ASSIGN_OR_RETURN(const PartialShape labels, s.WithRank(1, 1));
         const auto batch = s.MergeDims(features.dim(0), labels.dim(0));
         if (!batch.ok()) {
           return InvalidArgumentError(StrCat("batch sizes differ: features is ", features.ToString(),
                                              ", labels is ", labels.ToString()));
         }
         s.set_output(0, PartialShape({*batch}));
         s.set_output(1, PartialShape({*batch, features.dim(1)}));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, CrossEntropyBack(g));
         return OkStatus();
       }},
      {.name = "InTopKV2",
       .summary = "Gives, for every row, whether the target is among the k largest predictions.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape predictions, s.WithRank(0, 2));
         WEIR_ASSIGN_OR_RETURN(const PartialShape targets, s.WithRank(1, 1));
         WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
         const auto batch = s.MergeDims(predictions.dim(0), targets.dim(0));
         if (!batch.ok()) {
           return InvalidArgumentError(StrCat("batch sizes differ: predictions is ", predictions.ToString(),
                                              ", targets is ", targets.ToString()));
         }
         s.set_output(0, PartialShape({*batch}));
         return OkStatus();
       },
       .gradient = NotDifferentiable},

      // ---- Windows over images ----
      {.name = "Conv2D",
       .summary = "Convolves images with a filter [height, width, channels in, channels out].",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
         WEIR_ASSIGN_OR_RETURN(const PartialShape filter, s.WithRank(1, 4));
         WEIR_ASSIGN_OR_RETURN(PartialShape shape, ConvShape(s.attrs(), input, filter));
         s.set_output(0, std::move(shape));
         return OkStatus();
       },
       .gradient = Conv2DGradient},
      {.name = "Conv2DBackpropInput",
       .summary = "Gives the gradient of Conv2D with respect to its input.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape input, RequestedShape(s, 0));
         WEIR_ASSIGN_OR_RETURN(const PartialShape filter, s.WithRank(1, 4));
         if (!input.has_rank()) input = PartialShape::OfRank(4);
         WEIR_RETURN_IF_ERROR(CheckBackprop(s, input, filter));
         s.set_output(0, std::move(input));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         const AttrMap attrs = SameConv(g);
         g.set_input_grad(
             1, g.Add("Conv2DBackpropFilter", {g.grad(0), ShapeOf(g, g.input(1)), g.input(2)}, attrs));
         g.set_input_grad(2, g.Add("Conv2D", {g.grad(0), g.input(1)}, attrs));
         return OkStatus();
       }},
      {.name = "Conv2DBackpropFilter",
       .summary = "Gives the gradient of Conv2D with respect to its filter.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
         WEIR_ASSIGN_OR_RETURN(PartialShape filter, RequestedShape(s, 1));
         if (!filter.has_rank()) filter = PartialShape::OfRank(4);
         WEIR_RETURN_IF_ERROR(CheckBackprop(s, input, filter));
         s.set_output(0, std::move(filter));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         const AttrMap attrs = SameConv(g);
         g.set_input_grad(
             0, g.Add("Conv2DBackpropInput", {ShapeOf(g, g.input(0)), g.grad(0), g.input(2)}, attrs));
         g.set_input_grad(2, g.Add("Conv2D", {g.input(0), g.grad(0)}, attrs));
         return OkStatus();
       }},

      // ---- Pooling ----
      {.name = "MaxPool",
       .summary = "Gives the largest element of every window of an image, channel by channel.",
       .infer_shapes = PoolShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("MaxPoolGrad", {g.input(0), g.output(0), g.grad(0)}, SamePool(g)));
         return OkStatus();
       }},
      {.name = "MaxPoolGrad",
       .summary = "Gives the gradient of MaxPool with respect to its input.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape input, s.WithRank(0, 4));
         WEIR_ASSIGN_OR_RETURN(const PartialShape pooled, PooledShape(s.attrs(), input));
         for (int i = 1; i < 3; ++i) {
           if (!pooled.IsCompatibleWith(s.input(i))) {
             return InvalidArgumentError(
                 StrCat(s.input_name(i), " must be ", pooled.ToString(), ", is ", s.input(i).ToString()));
           }
         }
         s.set_output(0, std::move(input));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         return absl::UnimplementedError("the second derivative of MaxPool is not there yet");
       }},
      {.name = "AvgPool",
       .summary = "Gives the mean of every window of an image, channel by channel; padding does not count.",
       .infer_shapes = PoolShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("AvgPoolGrad", {ShapeOf(g, g.input(0)), g.grad(0)}, SamePool(g)));
         return OkStatus();
       }},
      {.name = "AvgPoolGrad",
       .summary = "Gives the gradient of AvgPool with respect to its input.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape input, RequestedShape(s, 0));
         if (!input.has_rank()) input = PartialShape::OfRank(4);
         if (input.rank() != 4) {
           return InvalidArgumentError(
               StrCat("orig_input_shape must have 4 elements, is ", input.ToString()));
         }
         WEIR_ASSIGN_OR_RETURN(const PartialShape pooled, PooledShape(s.attrs(), input));
         if (!pooled.IsCompatibleWith(s.input(1))) {
           return InvalidArgumentError(
               StrCat("grad must be ", pooled.ToString(), ", is ", s.input(1).ToString()));
         }
         s.set_output(0, std::move(input));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(1, g.Add("AvgPool", {g.grad(0)}, SamePool(g)));
         return OkStatus();
       }},
  };
}

}  // namespace weir
