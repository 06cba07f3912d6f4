// Taking the slices of a tensor apart by their partition, and putting slices together by their index.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// What is left of `data` behind the dimensions of `prefix`, with which it must begin.
absl::StatusOr<PartialShape> SliceShape(ShapeInference& s, int data_input, int prefix_input) {
  const PartialShape& data = s.input(data_input);
  const PartialShape& prefix = s.input(prefix_input);
  if (!data.has_rank() || !prefix.has_rank()) return PartialShape();
  for (int i = 0; i < prefix.rank(); ++i) {
    if (i < data.rank() && s.MergeDims(data.dim(i), prefix.dim(i)).ok()) continue;
    return InvalidArgumentError(StrCat(s.input_name(data_input), " must begin with the dimensions of ",
                                       s.input_name(prefix_input), ": ", s.input_name(data_input), " is ",
                                       data.ToString(), ", ", s.input_name(prefix_input), " is ",
                                       prefix.ToString()));
  }
  return PartialShape::FromDims(data.dims().subspan(prefix.rank()));
}

Status SetSlices(ShapeInference& s, int output, int64_t count, const PartialShape& slice) {
  if (!slice.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(slice);
  dims.insert(dims.begin(), count);
  return SetOutputDims(s, output, dims);
}

Status PartitionShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape slice, SliceShape(s, 0, 1));
  const auto partitions = s.input_integers(1);
  for (int i = 0; i < s.num_outputs(); ++i) {
    const int64_t count =
        partitions ? std::count(partitions->begin(), partitions->end(), int64_t{i}) : kUnknown;
    WEIR_RETURN_IF_ERROR(SetSlices(s, i, count, slice));
  }
  return OkStatus();
}

// The gradients go back to where their slices came from.
Status PartitionGradient(GradientContext& g) {
  const Output shape = ShapeOf(g, g.input(1));
  const Output count = g.Add("Prod", {shape, g.Constant(DType::kInt32, 0)});
  const Output places =
      Reshape(g, g.Add("Range", {g.Constant(DType::kInt32, 0), count, g.Constant(DType::kInt32, 1)}), shape);
  const std::vector<Output> grads = GradsOrZeros(g);
  Node* const partitioned =
      g.graph().AddNode("DynamicPartition", {places, g.input(1)},
                        {{"num_partitions", g.attr<int64_t>("num_partitions")}}, "", g.node().source());
  if (partitioned == nullptr) return g.graph().status();
  std::vector<Output> indices;
  for (size_t i = 0; i < grads.size(); ++i) indices.push_back(partitioned->output(static_cast<int>(i)));
  const Output rows = g.Add("ParallelDynamicStitch", {indices, grads});
  g.set_input_grad(0, ReshapeLike(g, rows, g.input(0)));
  return OkStatus();
}

Status StitchShape(ShapeInference& s) {
  const int count = s.num_inputs() / 2;
  PartialShape slice;
  int64_t length = 0;
  for (int i = 0; i < count; ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape own, SliceShape(s, count + i, i));
    auto both = slice.MergeWith(own);
    if (!both.ok()) {
      return InvalidArgumentError(StrCat("slices differ: those of ", s.input_name(count + i), " are ",
                                         own.ToString(), ", those before ", slice.ToString()));
    }
    slice = *std::move(both);
    const auto indices = s.input_integers(i);
    if (!indices) length = kUnknown;
    for (size_t k = 0; indices && length != kUnknown && k < indices->size(); ++k) {
      length = std::max(length, AddDims(std::max<int64_t>((*indices)[k], 0), 1));
    }
  }
  return SetSlices(s, 0, length, slice);
}

Status StitchGradient(GradientContext& g) {
  const int count = g.num_inputs() / 2;
  for (int i = 0; i < count; ++i) {
    g.set_input_grad(count + i, g.Add("GatherV2", {g.grad(0), g.input(i), g.Constant(DType::kInt32, 0)}));
  }
  return OkStatus();
}

OpDef Stitch(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = StitchShape,
          .gradient = StitchGradient};
}

}  // namespace

std::vector<OpDef> PartitioningOps() {
  return {
      {.name = "DynamicPartition",
       .summary = "Gives num_partitions tensors: the i-th has the slices of data whose partition is i.",
       .infer_shapes = PartitionShape,
       .gradient = PartitionGradient},
      Stitch("DynamicStitch",
             "Puts the slices of several tensors at their indices in one; the last of several at one index "
             "stays."),
      Stitch("ParallelDynamicStitch", "Like DynamicStitch, for indices that are all different."),
  };
}

}  // namespace weir
