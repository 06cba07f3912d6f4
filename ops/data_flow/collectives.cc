// Collectives: what the replicas of a model, each with a graph of its own, compute together.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status SameAsAttr(ShapeInference& s) {
  s.set_output(0, s.attr<PartialShape>("shape"));
  return OkStatus();
}

Status SendShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.input(0).MergeWith(s.attr<PartialShape>("shape")).status());
  return SameAsAttr(s);
}

// As many rows as only a step can tell.
Status UnknownRows(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 1));
  if (!input.has_rank()) return OkStatus();
  std::vector<int64_t> dims(input.dims().begin(), input.dims().end());
  dims[0] = PartialShape::kUnknownDim;
  WEIR_ASSIGN_OR_RETURN(const PartialShape output, PartialShape::FromDims(dims));
  s.set_output(0, output);
  return OkStatus();
}

// Keys and sizes are scalars.
Status CheckGroupInputs(ShapeInference& s) {
  for (int i = 1; i <= 3; ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

Status ReduceV2Shape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckGroupInputs(s));
  return UnchangedShape(s);
}

Status GatherV2Shape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckGroupInputs(s));
  return UnknownRows(s);
}

Status AllToAllShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(UnknownRows(s));
  s.set_output(1, PartialShape({s.attr<int64_t>("group_size")}));
  return OkStatus();
}

// An op of our own, for what TensorFlow's do not do.
OpDef OfOurOwn(OpDef def) {
  for (const char* attr : {"group_size: int", "group_key: int", "instance_key: int"}) {
    def.attrs.push_back(attr);
  }
  def.is_stateful = true;
  def.gradient = GradientMissing;
  return def;
}

const std::vector<std::string> kReductionAttrs = {
    "T: {bfloat16, half, float, double, int32, int64}", "merge_op: {'Min', 'Max', 'Mul', 'Add', 'Adasum'}",
    "final_op: {'Id', 'Div'}", "wire: {'', 'half', 'bfloat16'} = ''"};

}  // namespace

std::vector<OpDef> CollectivesOps() {
  return {
      {.name = "CollectiveReduce",
       .summary = "Gives the reduction of the inputs of all replicas, the same on each; final_op Div divides "
                  "it by group_size.",
       .infer_shapes = UnchangedShape,
       .gradient = GradientMissing},
      {.name = "CollectiveGather",
       .summary = "Joins the inputs of all replicas along dimension 0, in the order of their ranks.",
       .infer_shapes = UnknownRows,
       .gradient = GradientMissing},
      {.name = "CollectiveBcastSend",
       .summary = "Gives the input, also to every CollectiveBcastRecv of the same key on other replicas.",
       .infer_shapes = SendShape,
       .gradient = GradientMissing},
      {.name = "CollectiveBcastRecv",
       .summary = "Gives the input of the replica that runs CollectiveBcastSend with the same key.",
       .infer_shapes = SameAsAttr,
       .gradient = GradientMissing},
      {.name = "CollectiveReduceV2",
       .summary = "Gives the reduction of the inputs of all replicas, as CollectiveReduce does; the group is "
                  "an input.",
       .infer_shapes = ReduceV2Shape,
       .gradient = GradientMissing},
      {.name = "CollectiveGatherV2",
       .summary = "Joins the inputs of all replicas along dimension 0, in the order of their ranks; the "
                  "group is an input.",
       .infer_shapes = GatherV2Shape,
       .gradient = GradientMissing},
      OfOurOwn({.name = "WeirAllReduce",
                .summary = "Gives the reduction of the inputs of all replicas, which travel as `wire`.",
                .inputs = {"input: T"},
                .outputs = {"data: T"},
                .attrs = kReductionAttrs,
                .infer_shapes = UnchangedShape}),
      OfOurOwn({.name = "WeirReduceScatter",
                .summary = "Gives this replica's rows of the reduction of the inputs of all replicas.",
                .inputs = {"input: T"},
                .outputs = {"data: T"},
                .attrs = kReductionAttrs,
                .infer_shapes = UnknownRows}),
      OfOurOwn({.name = "WeirAllToAll",
                .summary = "Sends splits[r] rows to replica r, and joins what comes in the order of ranks.",
                .inputs = {"input: T", "splits: int64"},
                .outputs = {"data: T", "received_splits: int64"},
                .attrs = {"T: type"},
                .infer_shapes = AllToAllShape}),
      OfOurOwn({.name = "WeirBarrier",
                .summary = "Waits until all replicas have come to it.",
                .infer_shapes = NoOutputs}),
      OfOurOwn({.name = "WeirJoin",
                .summary = "Takes part in the collectives of the other replicas with zeros until all have "
                           "joined; gives the rank of the last one.",
                .outputs = {"last: int32"},
                .infer_shapes = ScalarShape}),
      OfOurOwn({.name = "WeirBeginUpdates",
                .summary = "Begins the updates of a step, which no failed collective is to tear.",
                .infer_shapes = NoOutputs}),
      OfOurOwn(
          {.name = "WeirEndUpdates", .summary = "Ends the updates of a step.", .infer_shapes = NoOutputs}),
  };
}

}  // namespace weir
