// Ops that count how often integers occur, and that sort numbers into bins.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// [rows, size] with the scalar input `size`; [size] for rows of nullopt.
Status CountsShape(ShapeInference& s, int size, std::optional<int64_t> rows) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> length, ScalarInput(s, size));
  if (length && *length < 0) {
    return InvalidArgumentError(StrCat("size (", *length, ") must be non-negative"));
  }
  if (!rows) return SetOutputDims(s, 0, {length.value_or(kUnknown)});
  return SetOutputDims(s, 0, {*rows, length.value_or(kUnknown)});
}

Status DenseShape(ShapeInference& s) {
  if (!s.input(0).has_rank()) return ScalarInput(s, 1).status();
  if (s.input(0).rank() > 2) {
    return InvalidArgumentError(StrCat("input must be at most rank 2, is ", s.input(0).ToString()));
  }
  return CountsShape(s, 1, s.input(0).rank() == 2 ? std::optional(s.input(0).dim(0)) : std::nullopt);
}

Status SparseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 2).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape dims, s.WithRank(2, 1));
  if (dims.dim(0) == kUnknown) return ScalarInput(s, 3).status();
  if (dims.dim(0) == 1) return CountsShape(s, 3, std::nullopt);
  const auto known = s.input_integers(2);
  return CountsShape(s, 3, known && !known->empty() && known->front() >= 0 ? known->front() : kUnknown);
}

Status RaggedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape splits, s.WithRank(0, 1));
  if (splits.dim(0) == 0) return InvalidArgumentError("Splits must be non-empty");
  return CountsShape(s, 2, splits.dim(0) == kUnknown ? kUnknown : splits.dim(0) - 1);
}

// A sparse tensor of counts, of `rank` dimensions.
Status SparseCountsShape(ShapeInference& s, int64_t rank) {
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 0, {kUnknown, rank}));
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 1, {kUnknown}));
  return SetOutputDims(s, 2, {rank});
}

Status DenseCountsShape(ShapeInference& s) {
  return SparseCountsShape(s, s.input(0).has_rank() ? s.input(0).rank() : kUnknown);
}

Status CountsOfSparseShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape dims, s.WithRank(2, 1));
  return SparseCountsShape(s, dims.dim(0) == kUnknown ? kUnknown : std::min<int64_t>(dims.dim(0), 2));
}

Status CountsOfRaggedShape(ShapeInference& s) { return SparseCountsShape(s, 2); }

Status HistogramShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape range, s.WithRank(1, 1));
  if (!s.MergeDims(range.dim(0), 2).ok()) {
    return InvalidArgumentError(StrCat("value_range must be [2], is ", range.ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> bins, ScalarInput(s, 2));
  if (bins && *bins <= 0) {
    return InvalidArgumentError(StrCat("nbins should be a positive number, but got '", *bins, "'"));
  }
  return SetOutputDims(s, 0, {bins.value_or(kUnknown)});
}

}  // namespace

std::vector<OpDef> CountingOps() {
  return {
      {.name = "DenseBincount",
       .summary =
           "Counts how often 0, 1, 2... occur in a tensor or in each row of a matrix, or adds up weights.",
       .infer_shapes = DenseShape,
       .gradient = NotDifferentiable},
      {.name = "SparseBincount",
       .summary = "Counts how often 0, 1, 2... occur in a sparse vector or in each row of a sparse tensor.",
       .infer_shapes = SparseShape,
       .gradient = NotDifferentiable},
      {.name = "RaggedBincount",
       .summary = "Counts how often 0, 1, 2... occur in each row of a ragged tensor, or adds up weights.",
       .infer_shapes = RaggedShape,
       .gradient = NotDifferentiable},
      {.name = "DenseCountSparseOutput",
       .summary = "Counts integers as DenseBincount, and gives the counts that are not 0 as a sparse tensor.",
       .infer_shapes = DenseCountsShape,
       .gradient = NotDifferentiable},
      {.name = "SparseCountSparseOutput",
       .summary =
           "Counts integers as SparseBincount, and gives the counts that are not 0 as a sparse tensor.",
       .infer_shapes = CountsOfSparseShape,
       .gradient = NotDifferentiable},
      {.name = "RaggedCountSparseOutput",
       .summary =
           "Counts integers as RaggedBincount, and gives the counts that are not 0 as a sparse tensor.",
       .infer_shapes = CountsOfRaggedShape,
       .gradient = NotDifferentiable},
      {.name = "Bucketize",
       .summary = "Gives the number of sorted boundaries that are not above each element.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      {.name = "HistogramFixedWidth",
       .summary = "Counts the elements in nbins equal parts of value_range; those outside go to its ends.",
       .infer_shapes = HistogramShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
