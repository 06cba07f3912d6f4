// Ops that each replace several: fusion (rewrite/fusion.h) puts them into a step's graph. Names, inputs and
// attrs are TensorFlow's, but for _FusedElementwise; _FusedConv2D takes bfloat16 too.
//
//   _FusedMatMul           MatMul, BiasAdd and an activation, as attr fused_ops lists them
//   _FusedConv2D           the same for Conv2D
//   _FusedBatchNormEx      FusedBatchNormV3, the sum with a side input, an activation
//   _FusedBatchNormGradEx  ReluGrad and FusedBatchNormGradV3, and what ReluGrad gives to others
//   _FusedElementwise      an expression of elementwise ops; an op of our own
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

// The expression is in attrs `ops` and `operands`, which has two numbers for each op. With n inputs, a number
// i below n is input i, and n + k is the result of op k; kNoOperand is the second operand of an op that takes
// one. The last op's result is the output. An input has the output's shape, or one element and no more
// dimensions than the output.
inline constexpr int kNoOperand = -1;
inline constexpr int kMaxFusedElementwiseOps = 32;
inline constexpr int kMaxFusedElementwiseInputs = 64;

absl::Status RegisterFusedOps(OpRegistry& registry);

}  // namespace weir
