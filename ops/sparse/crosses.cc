// Combinations of the features of several columns.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status CrossesShape(ShapeInference& s) {
  s.set_output(0, PartialShape({kUnknown, 2}));
  s.set_output(1, PartialShape({kUnknown}));
  s.set_output(2, Shape({2}));
  return OkStatus();
}

Status RaggedCrossShape(ShapeInference& s) {
  const auto num_ragged = static_cast<int>(s.attr<std::vector<DType>>("ragged_values_types").size());
  const auto num_splits = static_cast<int>(s.attr<std::vector<DType>>("ragged_splits_types").size());
  const auto num_sparse = static_cast<int>(s.attr<int64_t>("Nsparse"));
  const auto num_values = static_cast<int>(s.attr<std::vector<DType>>("sparse_values_types").size());
  const int first_sparse = num_ragged + num_splits;
  const int first_dense = first_sparse + 2 * num_sparse + num_values;
  int64_t num_rows = kUnknown;
  for (int i = num_ragged; i < first_sparse; ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape splits, s.WithRank(i, 1));
    if (splits.dim(0) != kUnknown && splits.dim(0) > 0) num_rows = splits.dim(0) - 1;
  }
  for (int i = first_dense; i < s.num_inputs(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape dense, s.WithRank(i, 2));
    if (dense.dim(0) != kUnknown) num_rows = dense.dim(0);
  }
  s.set_output(0, PartialShape({kUnknown}));
  s.set_output(1, PartialShape({AddDims(num_rows, 1)}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> CrossesOps() {
  return {
      WithoutGradient("SparseCross",
                      "Gives all combinations of one feature of each column, as strings or as buckets.",
                      CrossesShape),
      WithoutGradient("SparseCrossV2",
                      "Gives all combinations of one feature of each column, joined by `sep`.", CrossesShape),
      WithoutGradient("SparseCrossHashed",
                      "Gives the buckets of all combinations of one feature of each column.", CrossesShape),
      WithoutGradient(
          "RaggedCross",
          "Gives all combinations of one feature of each column, which may be ragged, sparse or dense.",
          RaggedCrossShape),
  };
}

}  // namespace weir
