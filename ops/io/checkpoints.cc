// Checkpoints in TensorFlow's V2 format.
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// prefix is a scalar, tensor_names and shape_and_slices have one element per tensor.
Status CheckNames(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  const int64_t count = static_cast<int64_t>(s.attr<std::vector<DType>>("dtypes").size());
  for (int i = 1; i <= 2; ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape names, s.WithRank(i, 1));
    if (!s.MergeDims(names.dim(0), count).ok()) {
      return InvalidArgumentError(
          StrCat(s.input_name(i), " must name ", count, " tensors (attr dtypes), is ", names.ToString()));
    }
  }
  return OkStatus();
}

Status AllScalars(ShapeInference& s) {
  for (int i = 0; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  s.set_output(0, Shape());
  return OkStatus();
}

Status SaveShape(ShapeInference& s) { return s.WithRank(0, 0).status(); }

Status RestoreShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  s.set_output(0, PartialShape());
  return OkStatus();
}

Status CheckPrefixes(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 1).status());
  return s.WithRank(1, 0).status();
}

}  // namespace

std::vector<OpDef> CheckpointsOps() {
  return {
      {.name = "SaveV2",
       .summary = "Writes tensors into the checkpoint files of a prefix.",
       .infer_shapes = CheckNames,
       .gradient = NotDifferentiable},
      {.name = "RestoreV2",
       .summary = "Reads tensors from the checkpoint files of a prefix.",
       .infer_shapes = CheckNames,  // the shapes are the checkpoint's
       .gradient = NotDifferentiable},
      {.name = "Save",
       .summary = "Writes tensors into a checkpoint file of the first format.",
       .infer_shapes = SaveShape,
       .gradient = NotDifferentiable},
      {.name = "SaveSlices",
       .summary = "Writes tensors or parts of tensors into a checkpoint file of the first format.",
       .infer_shapes = SaveShape,
       .gradient = NotDifferentiable},
      {.name = "Restore",
       .summary = "Reads a tensor from the checkpoint files of the first format that a pattern names.",
       .infer_shapes = RestoreShape,
       .gradient = NotDifferentiable},
      {.name = "RestoreSlice",
       .summary = "Reads a part of a tensor from checkpoint files of the first format.",
       .infer_shapes = RestoreShape,
       .gradient = NotDifferentiable},
      {.name = "ShardedFilename",
       .summary = "Gives the name of one shard of several: \"model-00001-of-00003\".",
       .infer_shapes = AllScalars,
       .gradient = NotDifferentiable},
      {.name = "ShardedFilespec",
       .summary =
           "Gives the pattern that the names of all shards match: question marks for a shard's number.",
       .infer_shapes = AllScalars,
       .gradient = NotDifferentiable},
      {.name = "MergeV2Checkpoints",
       .summary = "Makes one checkpoint of several with different tensors, which are gone afterwards.",
       .infer_shapes = CheckPrefixes,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
