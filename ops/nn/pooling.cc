// Pooling of images and volumes.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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

AttrMap SamePool(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "explicit_paddings", "data_format"}) {
    if (const AttrValue* value = g.node().FindAttr(name)) attrs[name] = *value;
  }
  return attrs;
}

// ksize and strides of an op that has them as inputs, its last two.
bool TakesWindows(absl::string_view op) { return absl::EndsWith(op, "V2"); }

// The attrs of a pooling; those of one with inputs as its attrs would be, or nullopt when a step says them.
std::optional<AttrMap> PoolAttrs(const ShapeInference& s) {
  if (!TakesWindows(s.op().name())) return s.attrs();
  const auto ksize = s.input_integers(s.num_inputs() - 2), strides = s.input_integers(s.num_inputs() - 1);
  if (!ksize || !strides) return std::nullopt;
  AttrMap attrs = s.attrs();
  attrs["ksize"] = *ksize;
  attrs["strides"] = *strides;
  return attrs;
}

// "MaxPool", "MaxPool3D" or "AvgPool...", of the pooling and its gradients.
std::string ForwardOp(GradientContext& g) {
  const std::string& op = g.node().op_name();
  return op.substr(0, std::min(op.find("Grad"), op.find("V2")));
}

// The op of that derivative with the windows of this one.
Output PoolDerivative(GradientContext& g, absl::string_view derivative, std::vector<InputArg> inputs,
                      AttrMap attrs) {
  const bool takes_windows = TakesWindows(g.node().op_name());
  if (takes_windows) {
    for (const int back : {2, 1}) inputs.push_back(g.input(g.num_inputs() - back));
  }
  return g.Add(StrCat(ForwardOp(g), derivative, takes_windows ? "V2" : ""), std::move(inputs),
               std::move(attrs));
}

// MaxPoolGrad and MaxPoolGradGrad are linear in `grad`, and each is the other's
// derivative. A small change of the other inputs changes nothing.
Status DifferentiateMaxPoolGrad(GradientContext& g, absl::string_view derivative, AttrMap attrs) {
  g.set_input_grad(0, ZerosLike(g, g.input(0)));
  g.set_input_grad(1, ZerosLike(g, g.input(1)));
  g.set_input_grad(2, PoolDerivative(g, derivative, {g.input(0), g.input(1), g.grad(0)}, std::move(attrs)));
  return OkStatus();
}

absl::StatusOr<PartialShape> PooledShape(const AttrMap& attrs, const PartialShape& input) {
  const auto layout = attrs.find("data_format");
  if (layout != attrs.end() && layout->second.get<std::string>() == "NCHW_VECT_C") {
    return absl::UnimplementedError(
        "data_format NCHW_VECT_C is for quantized tensors, which these ops do not take");
  }
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> ksize, PerAxis(attrs, "ksize"));
  const ImageAxes axes = AxesOf(attrs);
  std::vector<int64_t> window;
  for (const int axis : axes.spatial) {
    // -1 would be a size that is not known.
    if (ksize[axis] < 1) return InvalidArgumentError(StrCat("no window has size ", ksize[axis]));
    window.push_back(ksize[axis]);
  }
  const std::vector<int64_t> no_dilations(axes.rank(), 1);
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> spatial,
                        SlideOverImage(attrs, input, window, no_dilations));
  return ImageShape(attrs, input.dim(axes.batch), spatial, input.dim(axes.channels));
}

// Of input 0 pooled; of unknown dimensions when a step says the windows.
absl::StatusOr<PartialShape> PooledShape(const ShapeInference& s, const PartialShape& input) {
  const std::optional<AttrMap> attrs = PoolAttrs(s);
  if (attrs) return PooledShape(*attrs, input);
  const ImageAxes axes = AxesOf(s.attrs());
  std::vector<int64_t> spatial(axes.spatial.size(), kUnknown);
  return ImageShape(s.attrs(), input.dim(axes.batch), spatial, input.dim(axes.channels));
}

Status CheckShape(ShapeInference& s, int input, const PartialShape& shape) {
  if (shape.IsCompatibleWith(s.input(input))) return OkStatus();
  return InvalidArgumentError(
      StrCat(s.input_name(input), " must be ", shape.ToString(), ", is ", s.input(input).ToString()));
}

int RankOf(const ShapeInference& s) { return AxesOf(s.attrs()).rank(); }

Status PoolShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, RankOf(s)));
  WEIR_ASSIGN_OR_RETURN(PartialShape pooled, PooledShape(s, input));
  s.set_output(0, std::move(pooled));
  return OkStatus();
}

// `what` is pooled: an image or a volume. `version` ends the names of the ops.
std::vector<OpDef> MaxPoolOps(const std::string& op, absl::string_view what, absl::string_view version = "") {
  return {
      {.name = StrCat(op, version),
       .summary = StrCat("Gives the largest element of every window of ", what, ", channel by channel."),
       .infer_shapes = PoolShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, PoolDerivative(g, "Grad", {g.input(0), g.output(0), g.grad(0)}, SamePool(g)));
         return OkStatus();
       }},
      {.name = StrCat(op, "Grad", version),
       .summary = StrCat("Gives the gradient of ", op, " with respect to its input."),
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape input, s.WithRank(0, RankOf(s)));
         WEIR_ASSIGN_OR_RETURN(const PartialShape pooled, PooledShape(s, input));
         WEIR_RETURN_IF_ERROR(CheckShape(s, 1, pooled));
         WEIR_RETURN_IF_ERROR(CheckShape(s, 2, pooled));
         s.set_output(0, std::move(input));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         AttrMap attrs = SamePool(g);
         attrs.erase("explicit_paddings");  // MaxPoolGradGrad refuses the
                                            // padding EXPLICIT, as in TensorFlow
         return DifferentiateMaxPoolGrad(g, "GradGrad", std::move(attrs));
       }},
      {.name = StrCat(op, "GradGrad", version),
       .summary = StrCat("Gives the gradient of ", op, "Grad with respect to its input grad."),
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, RankOf(s)));
         WEIR_ASSIGN_OR_RETURN(PartialShape pooled, PooledShape(s, input));
         WEIR_RETURN_IF_ERROR(CheckShape(s, 1, pooled));
         WEIR_RETURN_IF_ERROR(CheckShape(s, 2, input));
         s.set_output(0, std::move(pooled));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         return DifferentiateMaxPoolGrad(g, "Grad", SamePool(g));
       }},
  };
}

Status ArgmaxShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(PoolShape(s));
  s.set_output(1, s.outputs()[0]);
  return OkStatus();
}

std::vector<OpDef> MaxPoolWithArgmaxOps() {
  return {
      {.name = "MaxPoolWithArgmax",
       .summary =
           "Gives the largest element of every window of an image, and where it stands in the image or, "
           "with include_batch_in_index, in the batch.",
       .infer_shapes = ArgmaxShape,
       .gradient = [](GradientContext& g) -> Status {
         AttrMap attrs = SamePool(g);
         attrs["include_batch_in_index"] = g.attr<bool>("include_batch_in_index");
         g.set_input_grad(
             0, g.Add("MaxPoolGradWithArgmax", {g.input(0), g.grad(0), g.output(1)}, std::move(attrs)));
         return OkStatus();
       }},
      {.name = "MaxPoolGradWithArgmax",
       .summary = "Gives the gradient of MaxPoolWithArgmax with respect to its input.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape input, s.WithRank(0, RankOf(s)));
         WEIR_ASSIGN_OR_RETURN(const PartialShape pooled, PooledShape(s, input));
         for (const int i : {1, 2}) WEIR_RETURN_IF_ERROR(CheckShape(s, i, pooled));
         s.set_output(0, std::move(input));
         return OkStatus();
       },
       .gradient = GradientMissing},
  };
}

std::vector<OpDef> AvgPoolOps(const std::string& op, absl::string_view what) {
  return {
      {.name = op,
       .summary = StrCat("Gives the mean of every window of ", what,
                         ", channel by channel; padding does not count."),
       .infer_shapes = PoolShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add(ForwardOp(g) + "Grad", {ShapeOf(g, g.input(0)), g.grad(0)}, SamePool(g)));
         return OkStatus();
       }},
      {.name = op + "Grad",
       .summary = StrCat("Gives the gradient of ", op, " with respect to its input."),
       .infer_shapes = [](ShapeInference& s) -> Status {
         const int rank = RankOf(s);
         WEIR_ASSIGN_OR_RETURN(PartialShape input, RequestedShape(s, 0));
         if (!input.has_rank()) input = PartialShape::OfRank(rank);
         if (input.rank() != rank) {
           return InvalidArgumentError(
               StrCat("orig_input_shape must have ", rank, " elements, is ", input.ToString()));
         }
         WEIR_ASSIGN_OR_RETURN(const PartialShape pooled, PooledShape(s, input));
         WEIR_RETURN_IF_ERROR(CheckShape(s, 1, pooled));
         s.set_output(0, std::move(input));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(1, g.Add(ForwardOp(g), {g.grad(0)}, SamePool(g)));
         return OkStatus();
       }},
  };
}

}  // namespace

std::vector<OpDef> PoolingOps() {
  std::vector<OpDef> ops;
  for (std::vector<OpDef> more : {MaxPoolOps("MaxPool", "an image"), MaxPoolOps("MaxPool", "an image", "V2"),
                                  MaxPoolWithArgmaxOps(), AvgPoolOps("AvgPool", "an image"),
                                  MaxPoolOps("MaxPool3D", "a volume"), AvgPoolOps("AvgPool3D", "a volume")}) {
    for (OpDef& op : more) ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace weir
