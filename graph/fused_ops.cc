#include "graph/fused_ops.h"

#include <utility>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status FusedMatMulShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape a, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRank(1, 2));
  s.set_output(0, PartialShape({a.dim(s.attr<bool>("transpose_a") ? 1 : 0),
                                b.dim(s.attr<bool>("transpose_b") ? 0 : 1)}));
  return absl::OkStatus();
}

absl::Status FusedElementwiseShape(ShapeInference& s) {
  PartialShape shape = s.input(0);
  for (int i = 1; i < s.num_inputs(); ++i) {
    WEIR_ASSIGN_OR_RETURN(shape, ShapeInference::Broadcast(shape, s.input(i)));
  }
  s.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// y is like x, the statistics like scale; the kernel checks the rest.
absl::Status FusedBatchNormShape(ShapeInference& s) {
  s.set_output(0, s.input(0));
  for (int i = 1; i < 5; ++i) s.set_output(i, s.input(1));
  s.set_output(5, PartialShape(Shape()));
  return absl::OkStatus();
}

// The gradients of x and of the side input are like x, those of scale and offset like scale; mean and
// variance have none.
absl::Status FusedBatchNormGradShape(ShapeInference& s) {
  s.set_output(0, s.input(1));
  for (int i = 1; i < 3; ++i) s.set_output(i, s.input(2));
  for (int i = 3; i < 5; ++i) s.set_output(i, PartialShape(Shape({0})));
  for (int i = 5; i < s.num_outputs(); ++i) s.set_output(i, s.input(1));
  return absl::OkStatus();
}

}  // namespace

absl::Status RegisterFusedOps(OpRegistry& registry) {
  WEIR_RETURN_IF_ERROR(registry.Register(
      {.name = kFusedMatMulOp,
       .summary = "Multiplies two matrices, adds a bias and applies an activation.",
       .inputs = {"a: T", "b: T", "args: num_args * T"},
       .outputs = {"product: T"},
       .attrs = {"transpose_a: bool = false", "transpose_b: bool = false", "T: {bfloat16, half, float}",
                 "num_args: int >= 0", "fused_ops: list(string) = []", "epsilon: float = 0.0001",
                 "leakyrelu_alpha: float = 0.2"},
       .infer_shapes = FusedMatMulShape,
       .gradient = NotDifferentiable}));
  WEIR_RETURN_IF_ERROR(registry.Register({.name = kFusedElementwiseOp,
                                          .summary = "Runs elementwise ops one after another.",
                                          .inputs = {"inputs: N * T"},
                                          .outputs = {"output: T"},
                                          .attrs = {"T: {half, bfloat16, float, double}", "N: int >= 1",
                                                    "ops: list(string)", "operands: list(int)"},
                                          .infer_shapes = FusedElementwiseShape,
                                          .gradient = NotDifferentiable}));
  WEIR_RETURN_IF_ERROR(registry.Register(
      {.name = kFusedConv2DOp,
       .summary = "Convolves images, adds a bias and applies an activation.",
       .inputs = {"input: T", "filter: T", "args: TArgs", "host_args: num_host_args * float"},
       .outputs = {"output: T"},
       .attrs = {"T: {half, bfloat16, float, double}", "TArgs: list(type)", "num_args: int >= 0",
                 "num_host_args: int >= 0 = 0", "strides: list(int)",
                 "padding: {'SAME', 'VALID', 'EXPLICIT'}", "explicit_paddings: list(int) = []",
                 "data_format: {'NHWC', 'NCHW'} = 'NHWC'", "filter_format: string = 'HWIO'",
                 "dilations: list(int) = [1, 1, 1, 1]", "use_cudnn_on_gpu: bool = true",
                 "fused_ops: list(string) = []", "epsilon: float = 0.0001", "leakyrelu_alpha: float = 0.2"},
       .infer_shapes = UnknownShape,
       .gradient = NotDifferentiable}));
  WEIR_RETURN_IF_ERROR(
      registry.Register({.name = kFusedBatchNormOp,
                         .summary = "Normalizes a batch, adds a side input and applies an activation.",
                         .inputs = {"x: T", "scale: U", "offset: U", "mean: U", "variance: U",
                                    "side_input: num_side_inputs * T"},
                         .outputs = {"y: T", "batch_mean: U", "batch_variance: U", "reserve_space_1: U",
                                     "reserve_space_2: U", "reserve_space_3: U"},
                         .attrs = {"T: {half, float, bfloat16}", "U: {float}", "epsilon: float = 0.0001",
                                   "exponential_avg_factor: float = 1.0", "num_side_inputs: int >= 0 = 0",
                                   "activation_mode: string = 'Identity'",
                                   "data_format: {'NHWC', 'NCHW'} = 'NHWC'", "is_training: bool = true"},
                         .infer_shapes = FusedBatchNormShape,
                         .gradient = NotDifferentiable}));
  return registry.Register(
      {.name = kFusedBatchNormGradOp,
       .summary =
           "Gives the gradients of _FusedBatchNormEx with respect to x, scale, offset and the side input.",
       .inputs = {"y_backprop: T", "x: T", "scale: float", "reserve_space_1: U", "reserve_space_2: U",
                  "reserve_space_3: U", "offset: float", "y: T"},
       .outputs = {"x_backprop: T", "scale_backprop: U", "offset_backprop: U", "reserve_space_4: U",
                   "reserve_space_5: U", "side_input_backprop: num_side_inputs * T"},
       .attrs = {"T: {half, float, bfloat16}", "U: {float}", "epsilon: float = 0.0001",
                 "num_side_inputs: int >= 0 = 0", "activation_mode: string = 'Identity'",
                 "data_format: {'NHWC', 'NCHW'} = 'NHWC'", "is_training: bool = true"},
       .infer_shapes = FusedBatchNormGradShape,
       .gradient = NotDifferentiable});
}

}  // namespace weir
