// Ops that combine the rows of a tensor that belong to one segment.
//
// Segment*: ids are sorted, one for each row; the last one says how many segments there are.
// UnsortedSegment*: ids in any order, of any rank; negative ones are left out.
// SparseSegment*: row indices[i] belongs to segment segment_ids[i], which are sorted.
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

// ---- Shapes ----

// [num_segments] and the dimensions of a row of input 0.
Status SetSegments(ShapeInference& s, int64_t num_segments) {
  const PartialShape& data = s.input(0);
  if (!data.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(data);
  dims[0] = num_segments;
  return SetOutputDims(s, 0, dims);
}

// One segment more than the last id, where that is a constant; a bad one is the step's to refuse.
int64_t NumSegments(ShapeInference& s, int ids_input) {
  const auto ids = s.input_integers(ids_input);
  if (!ids) return kUnknown;
  if (ids->empty()) return 0;
  return ids->back() < 0 ? kUnknown : AddDims(ids->back(), 1);
}

Status SortedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape data, s.WithRankAtLeast(0, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape ids, s.WithRank(1, 1));
  if (data.has_rank() && !s.MergeDims(data.dim(0), ids.dim(0)).ok()) {
    return InvalidArgumentError(StrCat("segment_ids must have one element for each row: data is ",
                                       data.ToString(), ", segment_ids is ", ids.ToString()));
  }
  return SetSegments(s, NumSegments(s, 1));
}

// The number of segments that scalar input `index` asks for; kUnknown when only a step can tell.
absl::StatusOr<int64_t> RequestedCount(ShapeInference& s, int index) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> count, ScalarInput(s, index));
  if (count && *count < 0) {
    return InvalidArgumentError(StrCat(s.input_name(index), " is ", *count, ", must not be negative"));
  }
  return count.value_or(kUnknown);
}

Status UnsortedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const int64_t num_segments, RequestedCount(s, 2));
  const PartialShape& data = s.input(0);
  const PartialShape& ids = s.input(1);
  if (!data.has_rank() || !ids.has_rank()) return OkStatus();
  std::vector<int64_t> dims = {num_segments};
  for (int i = 0; i < ids.rank(); ++i) {
    if (i >= data.rank() || !s.MergeDims(data.dim(i), ids.dim(i)).ok()) {
      return InvalidArgumentError(StrCat("data must begin with the dimensions of segment_ids: data is ",
                                         data.ToString(), ", segment_ids is ", ids.ToString()));
    }
  }
  for (int i = ids.rank(); i < data.rank(); ++i) dims.push_back(data.dim(i));
  return SetOutputDims(s, 0, dims);
}

// indices and segment_ids are vectors of one length.
Status CheckSparseIds(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRankAtLeast(0, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 1).status());
  return MergeInputs(s, 1, 3).status();
}

Status SparseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparseIds(s));
  return SetSegments(s, NumSegments(s, 2));
}

// The number of rows is input 3.
Status SparseShapeOfCount(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparseIds(s));
  WEIR_ASSIGN_OR_RETURN(const int64_t count, RequestedCount(s, 3));
  return SetSegments(s, count);
}

// How many rows are looked up is known in the step.
Status SparseShapeOfRows(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparseIds(s));
  WEIR_RETURN_IF_ERROR(RequestedCount(s, 3).status());
  WEIR_RETURN_IF_ERROR(SetSegments(s, kUnknown));
  return SetOutputDims(s, 1, {kUnknown});
}

// ---- Gradients ----

// The formulas of sorted and unsorted ids are the same, with these two steps between.
class Segments {
 public:
  explicit Segments(GradientContext& g) : g_(g), is_sorted_(g.num_inputs() == 2) {}

  Output Reduce(const char* reduction, Output rows) {
    if (is_sorted_) return g_.Add(StrCat("Segment", reduction), {rows, g_.input(1)});
    return g_.Add(StrCat("UnsortedSegment", reduction), {rows, g_.input(1), g_.input(2)});
  }

  // For each row of the data what its segment has; segment 0 for a row without one.
  Output Spread(Output per_segment) {
    Output ids = g_.input(1);
    if (!is_sorted_) ids = g_.Add("Maximum", {ids, Zero(g_, ids)});
    return g_.Add("GatherV2", {per_segment, ids, g_.Constant(DType::kInt32, 0)});
  }

  // Rows without a segment become zeros.
  Output DropUncounted(Output rows) {
    return is_sorted_ ? rows : Select(g_, IsCounted(), rows, Zero(g_, g_.input(0)));
  }

  // Whether a row has a segment, in a shape that broadcasts to the data's; null when all have.
  Output IsCounted() {
    if (is_sorted_) return Output();
    const Output ids = g_.input(1);
    // One dimension of 1 for each that the data has and the ids have not.
    const Output extra_rank = Sub(g_, g_.Add("Rank", {g_.input(0)}), g_.Add("Rank", {ids}));
    const Output ones =
        g_.Add("Fill", {Reshape(g_, extra_rank, g_.Integers({1})), g_.Constant(DType::kInt32, 1)});
    const Output shape =
        g_.Add("ConcatV2", {std::vector<Output>{ShapeOf(g_, ids), ones}, g_.Constant(DType::kInt32, 0)});
    return Reshape(g_, g_.Add("GreaterEqual", {ids, Zero(g_, ids)}), shape);
  }

 private:
  GradientContext& g_;
  const bool is_sorted_;
};

Status SumGradient(GradientContext& g) {
  Segments segments(g);
  g.set_input_grad(0, segments.DropUncounted(segments.Spread(g.grad(0))));
  return OkStatus();
}

Status MeanGradient(GradientContext& g) {
  Segments segments(g);
  // The number of rows of each segment, in the rank of the data.
  const Output ids = g.input(1);
  const Output extra_rank = Sub(g, g.Add("Rank", {g.input(0)}), g.Constant(DType::kInt32, 1));
  const Output ones_behind =
      g.Add("Fill", {Reshape(g, extra_rank, g.Integers({1})), g.Constant(DType::kInt32, 1)});
  const Output shape =
      g.Add("ConcatV2", {std::vector<Output>{ShapeOf(g, ids), ones_behind}, g.Constant(DType::kInt32, 0)});
  const Output ones = g.Add("Fill", {shape, g.Constant(g.input(0).dtype(), 1)});
  g.set_input_grad(0, segments.Spread(Div(g, g.grad(0), segments.Reduce("Sum", ones))));
  return OkStatus();
}

// The rows that are equal to the result share its gradient.
Status ExtremeGradient(GradientContext& g) {
  Segments segments(g);
  const DType dtype = g.input(0).dtype();
  Output is_it = g.Add("Equal", {g.input(0), segments.Spread(g.output(0))});
  if (const Output is_counted = segments.IsCounted()) is_it = g.Add("LogicalAnd", {is_it, is_counted});
  const Output share = Div(g, g.grad(0), segments.Reduce("Sum", Cast(g, is_it, dtype)));
  g.set_input_grad(0, Select(g, is_it, segments.Spread(share), g.Constant(dtype, 0)));
  return OkStatus();
}

// The product of the other rows: the result divided by the row, but for zeros. A segment with one zero has a
// gradient there only, one with more has none.
Status ProductGradient(GradientContext& g) {
  Segments segments(g);
  const Output data = g.input(0);
  const DType dtype = data.dtype();
  const Output zero = g.Constant(dtype, 0), one = g.Constant(dtype, 1);
  const Output is_zero = g.Add("Equal", {data, zero});
  const Output num_zeros = segments.Reduce("Sum", Cast(g, is_zero, DType::kInt32));
  const Output has_several = g.Add("Greater", {num_zeros, g.Constant(DType::kInt32, 1)});
  const Output grad = Select(g, has_several, zero, g.grad(0));
  const Output without_zeros = Select(g, is_zero, one, data);
  const Output others_at_zeros = segments.Spread(segments.Reduce("Prod", without_zeros));
  const Output others = Div(g, segments.Spread(g.output(0)), without_zeros);
  const Output factor = Select(g, is_zero, others_at_zeros, others);
  g.set_input_grad(0, Mul(g, segments.DropUncounted(segments.Spread(grad)), factor));
  return OkStatus();
}

// Op + "Grad" has the gradient of the rows.
template <const char* const& grad_op>
Status SparseGradient(GradientContext& g) {
  const Output num_rows =
      g.Add("StridedSlice", {ShapeOf(g, g.input(0)), g.Integers({0}), g.Integers({1}), g.Integers({1})},
            {{"shrink_axis_mask", 1}});
  g.set_input_grad(0, g.Add(grad_op, {g.grad(0), g.input(1), g.input(2), num_rows}));
  return OkStatus();
}
constexpr const char* kSumGrad = "SparseSegmentSumGrad";
constexpr const char* kMeanGrad = "SparseSegmentMeanGrad";
constexpr const char* kSqrtNGrad = "SparseSegmentSqrtNGrad";

}  // namespace

std::vector<OpDef> SegmentOps() {
  std::vector<OpDef> ops;
  const auto add = [&](std::string name, std::string summary, ShapeFunction shape,
                       GradientFunction gradient) {
    ops.push_back({.name = std::move(name),
                   .summary = std::move(summary),
                   .infer_shapes = shape,
                   .gradient = gradient});
  };
  add("SegmentSum", "Adds up the rows of each segment; ids are sorted.", SortedShape, SumGradient);
  add("SegmentMean", "Gives the mean of the rows of each segment; ids are sorted.", SortedShape,
      MeanGradient);
  add("SegmentProd", "Multiplies the rows of each segment; ids are sorted.", SortedShape, ProductGradient);
  add("SegmentMin", "Gives the smallest elements of the rows of each segment; ids are sorted.", SortedShape,
      ExtremeGradient);
  add("SegmentMax", "Gives the largest elements of the rows of each segment; ids are sorted.", SortedShape,
      ExtremeGradient);

  add("UnsortedSegmentSum",
      "Adds up the slices of data that have the same segment id; negative ids are left out.", UnsortedShape,
      SumGradient);
  add("UnsortedSegmentProd", "Multiplies the slices of data that have the same segment id.", UnsortedShape,
      ProductGradient);
  add("UnsortedSegmentMin",
      "Gives the smallest elements of the slices that have the same segment id; the dtype's largest number "
      "where there are none.",
      UnsortedShape, ExtremeGradient);
  add("UnsortedSegmentMax",
      "Gives the largest elements of the slices that have the same segment id; the dtype's smallest number "
      "where there are none.",
      UnsortedShape, ExtremeGradient);

  add("SparseSegmentSum", "Adds up the rows that indices list for each segment.", SparseShape,
      SparseGradient<kSumGrad>);
  add("SparseSegmentMean", "Gives the mean of the rows that indices list for each segment.", SparseShape,
      SparseGradient<kMeanGrad>);
  add("SparseSegmentSqrtN",
      "Gives the sum of the rows that indices list for each segment, divided by the square root of their "
      "number.",
      SparseShape, SparseGradient<kSqrtNGrad>);
  add("SparseSegmentSumWithNumSegments", "Like SparseSegmentSum, with zeros up to num_segments.",
      SparseShapeOfCount, SparseGradient<kSumGrad>);
  add("SparseSegmentMeanWithNumSegments", "Like SparseSegmentMean, with zeros up to num_segments.",
      SparseShapeOfCount, SparseGradient<kMeanGrad>);
  add("SparseSegmentSqrtNWithNumSegments", "Like SparseSegmentSqrtN, with zeros up to num_segments.",
      SparseShapeOfCount, SparseGradient<kSqrtNGrad>);
  add("SparseSegmentSumGrad", "Gives the gradient of the data of SparseSegmentSum.", SparseShapeOfCount,
      NotDifferentiable);
  add("SparseSegmentMeanGrad", "Gives the gradient of the data of SparseSegmentMean.", SparseShapeOfCount,
      NotDifferentiable);
  add("SparseSegmentSqrtNGrad", "Gives the gradient of the data of SparseSegmentSqrtN.", SparseShapeOfCount,
      NotDifferentiable);
  for (const char* reduction : {"Sum", "Mean", "SqrtN"}) {
    add(StrCat("SparseSegment", reduction, "GradV2"),
        StrCat("Gives the gradient of the data of SparseSegment", reduction,
               ": the rows that were looked up alone, and their numbers, in order."),
        SparseShapeOfRows, NotDifferentiable);
  }
  return ops;
}

}  // namespace weir
