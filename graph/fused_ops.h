// Ops that stand for several: what fusion (rewrite/fusion.h) puts into a step's graph. Names, inputs and
// attrs are TensorFlow's; _FusedConv2D takes bfloat16 too.
//
//   _FusedMatMul           MatMul, BiasAdd and an activation, as attr fused_ops lists them
//   _FusedConv2D           the same for Conv2D
//   _FusedBatchNormEx      FusedBatchNormV3, the sum with a side input, an activation
//   _FusedBatchNormGradEx  ReluGrad and FusedBatchNormGradV3, and what ReluGrad gives to others
//
//   _FusedElementwise      a program of elementwise ops; our own
//
// They have no gradient: fusion comes after the gradients were built.
#pragma once

#include "absl/status/status.h"
#include "graph/op_registry.h"

namespace weir {

inline constexpr char kFusedMatMulOp[] = "_FusedMatMul";
inline constexpr char kFusedConv2DOp[] = "_FusedConv2D";
inline constexpr char kFusedBatchNormOp[] = "_FusedBatchNormEx";
inline constexpr char kFusedBatchNormGradOp[] = "_FusedBatchNormGradEx";

inline constexpr char kFusedElementwiseOp[] = "_FusedElementwise";

// A program: attr ops, and in attr operands two numbers for each of them. A number below that of inputs is an
// input, the next ones are the results of the ops before; kNoOperand is the second of an op of one operand.
// The last result is the output. Inputs have its shape, or one element and no more dimensions.
inline constexpr int kNoOperand = -1;
inline constexpr int kMaxFusedElementwiseOps = 32;
inline constexpr int kMaxFusedElementwiseInputs = 64;

absl::Status RegisterFusedOps(OpRegistry& registry);

}  // namespace weir
