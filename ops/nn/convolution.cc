// Convolution of images and volumes.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/nn/image_windows.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// The attrs that a convolution and its two gradients share.
AttrMap SameConv(GradientContext& g) {
  AttrMap attrs;
  for (const char* name :
       {"strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations"}) {
    if (const AttrValue* value = g.node().FindAttr(name)) attrs[name] = *value;
  }
  return attrs;
}

// "Conv2D", "DepthwiseConv2dNative" or "Conv3D", of the convolution and its
// gradients.
std::string ForwardOp(GradientContext& g) {
  const std::string& op = g.node().op_name();
  return op.substr(0, op.find("Backprop"));
}

// "Conv2DBackpropInput" or the like. TensorFlow's first version of those of
// volumes has no sizes as inputs.
std::string BackpropOp(GradientContext& g, absl::string_view what) {
  const std::string op = ForwardOp(g);
  return StrCat(op, "Backprop", what, op == "Conv3D" ? "V2" : "");
}

// The output of convolving `input` with `filter`, whose dimensions are those of
// the window, channels in, channels out. Only images are convolved in groups.
absl::StatusOr<PartialShape> ConvShape(const AttrMap& attrs, const PartialShape& input,
                                       const PartialShape& filter) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> dilations, PerAxis(attrs, "dilations"));
  const ImageAxes axes = AxesOf(attrs);
  const int spatial_rank = axes.rank() - 2;
  const int64_t channels = input.dim(axes.channels), filter_channels = filter.dim(spatial_rank);
  const bool groups_fit = channels == kUnknown || filter_channels == kUnknown ||
                          channels == filter_channels ||
                          (spatial_rank == 2 && filter_channels > 0 && channels % filter_channels == 0);
  if (!groups_fit) {
    return InvalidArgumentError(
        StrCat("channels differ: input is ", input.ToString(), ", filter is ", filter.ToString()));
  }
  std::vector<int64_t> window;
  for (int i = 0; i < spatial_rank; ++i) window.push_back(filter.dim(i));
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> spatial, SlideOverImage(attrs, input, window, dilations));
  return ImageShape(attrs, input.dim(axes.batch), spatial, filter.dim(spatial_rank + 1));
}

// The filter of a depthwise convolution, [height, width, channels, multiplier], as that of a grouped one,
// where each channel is a group of its own: [height, width, 1, channels * multiplier].
absl::StatusOr<PartialShape> ConvolvedShape(ShapeInference& s, const PartialShape& input,
                                            const PartialShape& filter) {
  const bool is_depthwise = s.op().name().substr(0, 9) == "Depthwise";
  if (!is_depthwise) return ConvShape(s.attrs(), input, filter);
  const auto channels = s.MergeDims(input.dim(AxesOf(s.attrs()).channels), filter.dim(2));
  if (!channels.ok()) {
    return InvalidArgumentError(
        StrCat("channels differ: input is ", input.ToString(), ", filter is ", filter.ToString()));
  }
  return ConvShape(s.attrs(), input,
                   PartialShape({filter.dim(0), filter.dim(1), 1, MultiplyDims(*channels, filter.dim(3))}));
}

// Of inputs, filters and outputs.
int RankOf(const ShapeInference& s) { return AxesOf(s.attrs()).rank(); }

// The gradient that came back must have the shape of the forward convolution's
// output.
Status CheckBackprop(ShapeInference& s, const PartialShape& input, const PartialShape& filter) {
  const int rank = RankOf(s);
  WEIR_ASSIGN_OR_RETURN(const PartialShape backprop, s.WithRank(2, rank));
  if (input.rank() != rank || filter.rank() != rank) {
    return InvalidArgumentError(StrCat("sizes must describe a tensor of rank ", rank, ", are ",
                                       (input.rank() != rank ? input : filter).ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const PartialShape expected, ConvolvedShape(s, input, filter));
  if (backprop.IsCompatibleWith(expected)) return OkStatus();
  return InvalidArgumentError(
      StrCat("out_backprop must be ", expected.ToString(), ", is ", backprop.ToString()));
}

OpDef Convolution(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, RankOf(s)));
            WEIR_ASSIGN_OR_RETURN(const PartialShape filter, s.WithRank(1, RankOf(s)));
            WEIR_ASSIGN_OR_RETURN(PartialShape shape, ConvolvedShape(s, input, filter));
            s.set_output(0, std::move(shape));
            return OkStatus();
          },
          .gradient = [](GradientContext& g) -> Status {
            const Output input = g.input(0), filter = g.input(1);
            const AttrMap attrs = SameConv(g);
            const Output dy = g.grad(0);
            g.set_input_grad(0, g.Add(BackpropOp(g, "Input"), {ShapeOf(g, input), filter, dy}, attrs));
            g.set_input_grad(1, g.Add(BackpropOp(g, "Filter"), {input, ShapeOf(g, filter), dy}, attrs));
            return OkStatus();
          }};
}

OpDef InputBackprop(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_ASSIGN_OR_RETURN(PartialShape input, RequestedShape(s, 0));
            WEIR_ASSIGN_OR_RETURN(const PartialShape filter, s.WithRank(1, RankOf(s)));
            if (!input.has_rank()) input = PartialShape::OfRank(RankOf(s));
            WEIR_RETURN_IF_ERROR(CheckBackprop(s, input, filter));
            s.set_output(0, std::move(input));
            return OkStatus();
          },
          .gradient = [](GradientContext& g) -> Status {
            const AttrMap attrs = SameConv(g);
            g.set_input_grad(
                1, g.Add(BackpropOp(g, "Filter"), {g.grad(0), ShapeOf(g, g.input(1)), g.input(2)}, attrs));
            g.set_input_grad(2, g.Add(ForwardOp(g), {g.grad(0), g.input(1)}, attrs));
            return OkStatus();
          }};
}

OpDef FilterBackprop(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, RankOf(s)));
            WEIR_ASSIGN_OR_RETURN(PartialShape filter, RequestedShape(s, 1));
            if (!filter.has_rank()) filter = PartialShape::OfRank(RankOf(s));
            WEIR_RETURN_IF_ERROR(CheckBackprop(s, input, filter));
            s.set_output(0, std::move(filter));
            return OkStatus();
          },
          .gradient = [](GradientContext& g) -> Status {
            const AttrMap attrs = SameConv(g);
            g.set_input_grad(
                0, g.Add(BackpropOp(g, "Input"), {ShapeOf(g, g.input(0)), g.grad(0), g.input(2)}, attrs));
            g.set_input_grad(2, g.Add(ForwardOp(g), {g.input(0), g.grad(0)}, attrs));
            return OkStatus();
          }};
}

}  // namespace

std::vector<OpDef> ConvolutionOps() {
  return {
      Convolution("Conv2D", "Convolves images with a filter [height, width, channels in, channels out]."),
      InputBackprop("Conv2DBackpropInput", "Gives the gradient of Conv2D with respect to its input."),
      FilterBackprop("Conv2DBackpropFilter", "Gives the gradient of Conv2D with respect to its filter."),
      Convolution(
          "DepthwiseConv2dNative",
          "Convolves every channel of images with filters of its own [height, width, channels, multiplier]."),
      InputBackprop("DepthwiseConv2dNativeBackpropInput",
                    "Gives the gradient of DepthwiseConv2dNative with respect to its input."),
      FilterBackprop("DepthwiseConv2dNativeBackpropFilter",
                     "Gives the gradient of DepthwiseConv2dNative with respect "
                     "to its filter."),
      Convolution("Conv3D",
                  "Convolves volumes with a filter [depth, height, "
                  "width, channels in, channels out]."),
      InputBackprop("Conv3DBackpropInputV2", "Gives the gradient of Conv3D with respect to its input."),
      FilterBackprop("Conv3DBackpropFilterV2", "Gives the gradient of Conv3D with respect to its filter."),
  };
}

}  // namespace weir
