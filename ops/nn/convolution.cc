// Convolution of images.
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

// "Conv2D" or "DepthwiseConv2dNative", of the convolution and its gradients.
std::string ForwardOp(GradientContext& g) {
  const std::string& op = g.node().op_name();
  return op.substr(0, op.find("Backprop"));
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

// The gradient that came back must have the shape of the forward convolution's output.
Status CheckBackprop(ShapeInference& s, const PartialShape& input, const PartialShape& filter) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape backprop, s.WithRank(2, 4));
  if (input.rank() != 4 || filter.rank() != 4) {
    return InvalidArgumentError(StrCat("sizes must describe a tensor of rank 4, are ",
                                       (input.rank() != 4 ? input : filter).ToString()));
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
            WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
            WEIR_ASSIGN_OR_RETURN(const PartialShape filter, s.WithRank(1, 4));
            WEIR_ASSIGN_OR_RETURN(PartialShape shape, ConvolvedShape(s, input, filter));
            s.set_output(0, std::move(shape));
            return OkStatus();
          },
          .gradient = [](GradientContext& g) -> Status {
            const Output input = g.input(0), filter = g.input(1);
            const AttrMap attrs = SameConv(g);
            const std::string op = ForwardOp(g);
            g.set_input_grad(0, g.Add(op + "BackpropInput", {ShapeOf(g, input), filter, g.grad(0)}, attrs));
            g.set_input_grad(1, g.Add(op + "BackpropFilter", {input, ShapeOf(g, filter), g.grad(0)}, attrs));
            return OkStatus();
          }};
}

OpDef InputBackprop(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
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
            const std::string op = ForwardOp(g);
            g.set_input_grad(
                1, g.Add(op + "BackpropFilter", {g.grad(0), ShapeOf(g, g.input(1)), g.input(2)}, attrs));
            g.set_input_grad(2, g.Add(op, {g.grad(0), g.input(1)}, attrs));
            return OkStatus();
          }};
}

OpDef FilterBackprop(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
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
            const std::string op = ForwardOp(g);
            g.set_input_grad(
                0, g.Add(op + "BackpropInput", {ShapeOf(g, g.input(0)), g.grad(0), g.input(2)}, attrs));
            g.set_input_grad(2, g.Add(op, {g.input(0), g.grad(0)}, attrs));
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
                     "Gives the gradient of DepthwiseConv2dNative with respect to its filter."),
  };
}

}  // namespace weir
