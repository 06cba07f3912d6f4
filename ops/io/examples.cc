// Parsing tf.Example and tf.SequenceExample.
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

using DTypes = std::vector<DType>;
using Shapes = std::vector<PartialShape>;

// Sets the outputs of features one after the other. Leading dimensions are those of the examples: none, one,
// or unknown ones.
class FeatureShapes {
 public:
  FeatureShapes(ShapeInference& s, PartialShape examples) : s_(s), examples_(std::move(examples)) {}

  // Indices, values and shapes of sparse features with so many dimensions each, of one example.
  Status Sparse(size_t count, int rank) {
    const bool is_known = examples_.has_rank();
    const int64_t width = is_known ? examples_.rank() + rank : kUnknown;
    for (size_t i = 0; i < count; ++i) WEIR_RETURN_IF_ERROR(Set({kUnknown, width}));
    for (size_t i = 0; i < count; ++i) WEIR_RETURN_IF_ERROR(Set({kUnknown}));
    for (size_t i = 0; i < count; ++i) WEIR_RETURN_IF_ERROR(Set({width}));
    return OkStatus();
  }
  // Dense features: dimensions `between`, then their own.
  Status Dense(const Shapes& shapes, const std::vector<int64_t>& between = {}) {
    for (const PartialShape& shape : shapes) {
      if (!examples_.has_rank() || !shape.has_rank()) {
        ++output_;
        continue;
      }
      std::vector<int64_t> dims = DimsOf(examples_);
      dims.insert(dims.end(), between.begin(), between.end());
      const std::vector<int64_t> own = DimsOf(shape);
      dims.insert(dims.end(), own.begin(), own.end());
      WEIR_RETURN_IF_ERROR(Set(dims));
    }
    return OkStatus();
  }
  Status Lengths(size_t count) {
    for (size_t i = 0; i < count; ++i) s_.set_output(output_++, examples_);
    return OkStatus();
  }
  Status Values(size_t count) {
    for (size_t i = 0; i < count; ++i) WEIR_RETURN_IF_ERROR(Set({kUnknown}));
    return OkStatus();
  }
  // Row splits by example; of one example alone of the shape `alone`.
  Status Splits(size_t count, const PartialShape& alone) {
    for (size_t i = 0; i < count; ++i, ++output_) {
      if (!examples_.has_rank()) continue;
      if (examples_.rank() == 0)
        s_.set_output(output_, alone);
      else
        s_.set_output(output_, PartialShape({AddDims(examples_.dim(0), 1)}));
    }
    return OkStatus();
  }

 private:
  Status Set(absl::Span<const int64_t> dims) { return SetOutputDims(s_, output_++, dims); }

  ShapeInference& s_;
  const PartialShape examples_;
  int output_ = 0;
};

Status CheckShapes(const Shapes& shapes, size_t count, bool may_be_variable) {
  if (shapes.size() != count) {
    return InvalidArgumentError(
        StrCat("there are ", shapes.size(), " dense shapes for ", count, " dense features"));
  }
  for (size_t k = 0; k < shapes.size(); ++k) {
    bool is_known = shapes[k].has_rank();
    for (int i = 0; is_known && i < shapes[k].rank(); ++i) {
      is_known = shapes[k].dim(i) != kUnknown || (i == 0 && may_be_variable);
    }
    if (is_known) continue;
    return InvalidArgumentError(
        StrCat("dense_shapes[", k, "] has unknown rank or unknown inner dimensions: ", shapes[k].ToString()));
  }
  return OkStatus();
}

// The serialized examples: a vector, or, where `max_rank` and `least_rank` allow it, one alone.
absl::StatusOr<PartialShape> Examples(ShapeInference& s, int least_rank, int max_rank) {
  const PartialShape& serialized = s.input(0);
  if (!serialized.has_rank()) {
    return least_rank == max_rank
               ? PartialShape::FromDims(std::vector<int64_t>(least_rank, int64_t{kUnknown}))
               : serialized;
  }
  if (serialized.rank() < least_rank || serialized.rank() > max_rank) {
    return InvalidArgumentError(StrCat("serialized must be a ",
                                       max_rank == 0     ? "scalar"
                                       : least_rank == 1 ? "vector"
                                                         : "scalar or vector",
                                       ", is ", serialized.ToString()));
  }
  return serialized;
}

Status ExampleShape(ShapeInference& s, int least_rank, int max_rank, size_t num_ragged) {
  WEIR_ASSIGN_OR_RETURN(PartialShape examples, Examples(s, least_rank, max_rank));
  const Shapes& shapes = s.attr<Shapes>("dense_shapes");
  WEIR_RETURN_IF_ERROR(CheckShapes(shapes, s.attr<DTypes>("Tdense").size(), true));
  const size_t num_sparse = s.attr<DTypes>("sparse_types").size();
  const size_t num_outputs = 3 * num_sparse + shapes.size() + 2 * num_ragged;
  if (s.num_outputs() != static_cast<int>(num_outputs)) {
    return InvalidArgumentError(StrCat("there are ", num_sparse, " sparse_types, and ", s.num_outputs(),
                                       " outputs where these features have ", num_outputs));
  }
  FeatureShapes outputs(s, std::move(examples));
  WEIR_RETURN_IF_ERROR(outputs.Sparse(num_sparse, 1));
  WEIR_RETURN_IF_ERROR(outputs.Dense(shapes));
  WEIR_RETURN_IF_ERROR(outputs.Values(num_ragged));
  return outputs.Splits(num_ragged, PartialShape({0}));
}

Status ParseExampleShape(ShapeInference& s) { return ExampleShape(s, 1, 1, 0); }
Status ParseSingleExampleShape(ShapeInference& s) { return ExampleShape(s, 0, 0, 0); }
Status ParseExampleV2Shape(ShapeInference& s) {
  return ExampleShape(s, 0, 1, s.attr<DTypes>("ragged_value_types").size());
}

Status SequenceShape(ShapeInference& s, bool is_single, size_t num_ragged, size_t num_ragged_lists) {
  WEIR_ASSIGN_OR_RETURN(PartialShape examples, Examples(s, 0, is_single ? 0 : 1));
  const Shapes &context = s.attr<Shapes>("context_dense_shapes"),
               &lists = s.attr<Shapes>("feature_list_dense_shapes");
  WEIR_RETURN_IF_ERROR(CheckShapes(context, s.attr<DTypes>("Tcontext_dense").size(), false));
  WEIR_RETURN_IF_ERROR(CheckShapes(lists, s.attr<DTypes>("feature_list_dense_types").size(), false));
  const size_t num_sparse = s.attr<DTypes>("context_sparse_types").size();
  const size_t num_sparse_lists = s.attr<DTypes>("feature_list_sparse_types").size();
  const size_t num_outputs = 3 * (num_sparse + num_sparse_lists) + context.size() +
                             (is_single ? 1 : 2) * lists.size() + 2 * num_ragged + 3 * num_ragged_lists;
  if (s.num_outputs() != static_cast<int>(num_outputs)) {
    return InvalidArgumentError(
        StrCat("there are ", s.num_outputs(), " outputs where the features of the attrs have ", num_outputs));
  }
  FeatureShapes outputs(s, std::move(examples));
  WEIR_RETURN_IF_ERROR(outputs.Sparse(num_sparse, 1));
  WEIR_RETURN_IF_ERROR(outputs.Dense(context));
  WEIR_RETURN_IF_ERROR(outputs.Values(num_ragged));
  WEIR_RETURN_IF_ERROR(outputs.Splits(num_ragged, Shape()));
  WEIR_RETURN_IF_ERROR(outputs.Sparse(num_sparse_lists, 2));
  WEIR_RETURN_IF_ERROR(outputs.Dense(lists, {kUnknown}));
  if (!is_single) WEIR_RETURN_IF_ERROR(outputs.Lengths(lists.size()));
  WEIR_RETURN_IF_ERROR(outputs.Values(num_ragged_lists));
  WEIR_RETURN_IF_ERROR(outputs.Splits(num_ragged_lists, Shape()));
  return outputs.Values(num_ragged_lists);  // inner splits: as many as features and one
}

Status ParseSequenceExampleShape(ShapeInference& s) { return SequenceShape(s, false, 0, 0); }
Status ParseSingleSequenceExampleShape(ShapeInference& s) { return SequenceShape(s, true, 0, 0); }
Status ParseSequenceExampleV2Shape(ShapeInference& s) {
  return SequenceShape(s, false, s.attr<DTypes>("context_ragged_value_types").size(),
                       s.attr<DTypes>("feature_list_ragged_value_types").size());
}

}  // namespace

std::vector<OpDef> ExamplesOps() {
  return {
      {.name = "ParseExample",
       .summary = "Reads features of a vector of serialized tf.Examples as sparse and dense tensors.",
       .infer_shapes = ParseExampleShape,
       .gradient = NotDifferentiable},
      {.name = "ParseExampleV2",
       .summary = "Reads features of one or a vector of serialized tf.Examples as sparse, dense and ragged "
                  "tensors.",
       .infer_shapes = ParseExampleV2Shape,
       .gradient = NotDifferentiable},
      {.name = "ParseSingleExample",
       .summary = "Reads features of one serialized tf.Example as sparse and dense tensors.",
       .infer_shapes = ParseSingleExampleShape,
       .gradient = NotDifferentiable},
      {.name = "ParseSequenceExample",
       .summary = "Reads the context and feature lists of serialized tf.SequenceExamples as sparse and dense "
                  "tensors.",
       .infer_shapes = ParseSequenceExampleShape,
       .gradient = NotDifferentiable},
      {.name = "ParseSequenceExampleV2",
       .summary =
           "Reads the context and feature lists of serialized tf.SequenceExamples as sparse, dense and "
           "ragged tensors.",
       .infer_shapes = ParseSequenceExampleV2Shape,
       .gradient = NotDifferentiable},
      {.name = "ParseSingleSequenceExample",
       .summary = "Reads the context and feature lists of one serialized tf.SequenceExample as sparse and "
                  "dense tensors.",
       .infer_shapes = ParseSingleSequenceExampleShape,
       .gradient = NotDifferentiable},
      {.name = "DecodeJSONExample",
       .summary = "Gives the serialized tf.Examples that texts in JSON stand for.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
