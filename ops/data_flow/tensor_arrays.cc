// Stacks and arrays of tensors, which live for one step: what v1 loops keep of their iterations.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The first input is one number or handle, and all outputs are.
Status ScalarsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return ScalarShape(s);
}

// Takes a handle; the shapes of what it gives are known in a step.
Status ValueShape(ShapeInference& s) { return s.WithRank(0, 0).status(); }

Status PushShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  s.set_output(0, s.input(1));
  return OkStatus();
}

// Of an element: its index, and the flow behind it.
Status WriteShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  return ScalarsShape(s);
}

Status ReadShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  return ValueShape(s);
}

Status ManyShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  return s.num_inputs() == 4 ? ScalarsShape(s) : ValueShape(s);
}

Status SplitShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 1).status());
  return ScalarsShape(s);
}

Status ConcatShape(ShapeInference& s) {
  s.set_output(1, PartialShape::OfRank(1));
  return ValueShape(s);
}

}  // namespace

std::vector<OpDef> TensorArraysOps() {
  return {
      WithGradientMissing(
          "StackV2", "Gives the handle of a new stack of at most max_size tensors (below 0: any number).",
          ScalarsShape),
      WithGradientMissing("StackPushV2", "Puts the tensor on the stack, and gives it.", PushShape),
      WithGradientMissing("StackPopV2", "Takes the tensor from the stack that came last.", ValueShape),
      WithGradientMissing("StackCloseV2", "Empties the stack, which no node may use any more.", ScalarsShape),
      WithoutGradient("TensorArrayV3",
                      "Gives the handle of a new array of tensors, and a flow for its first user.",
                      ScalarsShape),
      WithoutGradient("TensorArrayGradV3",
                      "Gives the handle of the array's gradient for that source: the same one each time.",
                      ScalarsShape),
      WithoutGradient("TensorArrayGradWithShape",
                      "Gives the handle of the array's gradient for that source, whose elements have further "
                      "dimensions in front.",
                      ScalarsShape),
      WithGradientMissing("TensorArrayWriteV3", "Makes the value element index of the array.", WriteShape),
      WithGradientMissing("TensorArrayReadV3", "Gives element index of the array.", ReadShape),
      WithGradientMissing("TensorArrayGatherV3",
                          "Gives some elements of the array, which have one shape, as rows of one tensor.",
                          ManyShape),
      WithGradientMissing("TensorArrayScatterV3", "Makes row i of the value element indices[i] of the array.",
                          ManyShape),
      WithGradientMissing(
          "TensorArrayConcatV3",
          "Gives all elements of the array one behind the other along their first dimension, and their "
          "lengths there.",
          ConcatShape),
      WithGradientMissing(
          "TensorArraySplitV3",
          "Makes slices of the value along its first dimension, of these lengths, the array's "
          "elements.",
          SplitShape),
      WithoutGradient("TensorArraySizeV3", "Gives the number of elements of the array.", ScalarsShape),
      WithoutGradient("TensorArrayCloseV3", "Empties the array, which no node may use any more.",
                      ScalarsShape),
  };
}

}  // namespace weir
