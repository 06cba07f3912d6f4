// Ops that put all elements in another order: reversed, or blocks of space as depth or batch.
#include <limits>
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

// ---- Reversing ----

Status ReverseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  const PartialShape& tensor = s.input(0);
  const auto axes = s.input_integers(1);
  if (tensor.has_rank() && axes) {
    std::vector<bool> is_reversed(tensor.rank(), false);
    for (const int64_t axis : *axes) {
      WEIR_ASSIGN_OR_RETURN(const int index, NormalizeAxis(axis, tensor.rank(), "axis"));
      if (is_reversed[index]) return InvalidArgumentError(StrCat("axis ", index, " is listed twice"));
      is_reversed[index] = true;
    }
  }
  return UnchangedShape(s);
}

Status ReverseSequenceShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape lengths, s.WithRank(1, 1));
  const PartialShape& input = s.input(0);
  if (input.has_rank()) {
    for (const char* name : {"seq_dim", "batch_dim"}) {
      const int64_t dim = s.attr<int64_t>(name);
      if (dim >= 0 && dim < input.rank()) continue;
      return InvalidArgumentError(StrCat(name, " is ", dim, ", input is ", input.ToString()));
    }
    const int batch = static_cast<int>(s.attr<int64_t>("batch_dim"));
    if (!s.MergeDims(input.dim(batch), lengths.dim(0)).ok()) {
      return InvalidArgumentError(StrCat("seq_lengths must have one element for each of dimension ", batch,
                                         ": input is ", input.ToString(), ", seq_lengths is ",
                                         lengths.ToString()));
    }
  }
  return UnchangedShape(s);
}

Status RollShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 1));
  for (const int i : {1, 2}) {
    if (!s.input(i).has_rank() || s.input(i).rank() <= 1) continue;
    return InvalidArgumentError(
        StrCat(s.input_name(i), " must be a scalar or a vector, is ", s.input(i).ToString()));
  }
  WEIR_RETURN_IF_ERROR(MergeInputs(s, 1, 3).status());
  const auto axes = s.input_integers(2);
  if (input.has_rank() && axes) {
    for (const int64_t each : *axes) {
      WEIR_RETURN_IF_ERROR(NormalizeAxis(each, input.rank(), "axis").status());
    }
  }
  return UnchangedShape(s);
}

// ---- Blocks ----

// Of images [batch, height, width, depth]; NCHW has the depth in front.
struct ImageDims {
  int height, width, depth;
};

absl::StatusOr<ImageDims> ImageDimsOf(ShapeInference& s) {
  const std::string& layout = s.attr<std::string>("data_format");
  if (layout == "NHWC") return ImageDims{1, 2, 3};
  if (layout == "NCHW") return ImageDims{2, 3, 1};
  return absl::UnimplementedError(StrCat("data_format ", layout, " is not supported"));
}

absl::StatusOr<int64_t> DivideDim(int64_t dim, int64_t divisor, const char* name) {
  if (dim == kUnknown) return kUnknown;
  if (divisor <= 0 || dim % divisor != 0) {
    return InvalidArgumentError(StrCat(name, " ", dim, " is not divisible by ", divisor));
  }
  return dim / divisor;
}

Status SpaceToDepthShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const ImageDims at, ImageDimsOf(s));
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
  const int64_t block = s.attr<int64_t>("block_size");
  std::vector<int64_t> dims = DimsOf(input);
  WEIR_ASSIGN_OR_RETURN(dims[at.height], DivideDim(dims[at.height], block, "height"));
  WEIR_ASSIGN_OR_RETURN(dims[at.width], DivideDim(dims[at.width], block, "width"));
  dims[at.depth] = MultiplyDims(MultiplyDims(dims[at.depth], block), block);
  return SetOutputDims(s, 0, dims);
}

Status DepthToSpaceShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const ImageDims at, ImageDimsOf(s));
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
  const int64_t block = s.attr<int64_t>("block_size");
  std::vector<int64_t> dims = DimsOf(input);
  const int64_t area = MultiplyDims(block, block);
  if (area == kUnknown) return InvalidArgumentError(StrCat("block_size ", block, " is too large"));
  WEIR_ASSIGN_OR_RETURN(dims[at.depth], DivideDim(dims[at.depth], area, "depth"));
  dims[at.height] = MultiplyDims(dims[at.height], block);
  dims[at.width] = MultiplyDims(dims[at.width], block);
  return SetOutputDims(s, 0, dims);
}

Status OtherWay(GradientContext& g, const char* op) {
  g.set_input_grad(0, g.Add(op, {g.grad(0)},
                            {{"block_size", g.attr<int64_t>("block_size")},
                             {"data_format", g.attr<std::string>("data_format")}}));
  return OkStatus();
}

// Both ops with blocks of several dimensions: input, block_shape [M], paddings or crops [M,2].
Status CheckBlocks(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape blocks, s.WithRank(1, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape pairs, s.WithRank(2, 2));
  const bool pairs_fit = pairs.dim(1) == kUnknown || pairs.dim(1) == 2;
  if (!pairs_fit || !s.MergeDims(blocks.dim(0), pairs.dim(0)).ok()) {
    return InvalidArgumentError(StrCat(s.input_name(2), " must be [M,2] for block_shape [M]: they are ",
                                       pairs.ToString(), " and ", blocks.ToString()));
  }
  if (input.has_rank() && blocks.dim(0) != kUnknown && blocks.dim(0) >= input.rank()) {
    return InvalidArgumentError(
        StrCat("block_shape is ", blocks.ToString(), ", input only ", input.ToString()));
  }
  return OkStatus();
}

Status SpaceToBatchShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckBlocks(s));
  const PartialShape& input = s.input(0);
  if (!input.has_rank()) return OkStatus();
  const auto blocks = s.input_integers(1), paddings = s.input_integers(2);
  if (!blocks || !paddings) {
    s.set_output(0, PartialShape::OfRank(input.rank()));
    return OkStatus();
  }
  std::vector<int64_t> dims = DimsOf(input);
  for (size_t i = 0; i < blocks->size(); ++i) {
    const int64_t before = (*paddings)[2 * i], after = (*paddings)[2 * i + 1];
    if ((*blocks)[i] < 1 || before < 0 || after < 0) {
      return InvalidArgumentError(StrCat("block ", (*blocks)[i], " with paddings ", before, " and ", after));
    }
    dims[0] = MultiplyDims(dims[0], (*blocks)[i]);
    WEIR_ASSIGN_OR_RETURN(dims[i + 1], DivideDim(AddDims(dims[i + 1], AddDims(before, after)), (*blocks)[i],
                                                 "padded dimension"));
  }
  return SetOutputDims(s, 0, dims);
}

Status BatchToSpaceShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckBlocks(s));
  const PartialShape& input = s.input(0);
  if (!input.has_rank()) return OkStatus();
  const auto blocks = s.input_integers(1), crops = s.input_integers(2);
  if (!blocks || !crops) {
    s.set_output(0, PartialShape::OfRank(input.rank()));
    return OkStatus();
  }
  std::vector<int64_t> dims = DimsOf(input);
  for (size_t i = 0; i < blocks->size(); ++i) {
    const int64_t block = (*blocks)[i], before = (*crops)[2 * i], after = (*crops)[2 * i + 1];
    if (block < 1 || before < 0 || after < 0) {
      return InvalidArgumentError(StrCat("block ", block, " with crops ", before, " and ", after));
    }
    WEIR_ASSIGN_OR_RETURN(dims[0], DivideDim(dims[0], block, "batch"));
    const int64_t whole = MultiplyDims(dims[i + 1], block);
    const int64_t cropped = AddDims(before, after);
    if (whole != kUnknown && (cropped == kUnknown || cropped > whole)) {
      return InvalidArgumentError(StrCat("crops ", before, " and ", after, " of a dimension of ", whole));
    }
    dims[i + 1] = whole == kUnknown ? kUnknown : whole - cropped;
  }
  return SetOutputDims(s, 0, dims);
}

Status WithSameBlocks(GradientContext& g, const char* op) {
  g.set_input_grad(0, g.Add(op, {g.grad(0), g.input(1), g.input(2)}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> RearrangingOps() {
  return {
      {.name = "ReverseV2",
       .summary = "Reverses the order along the listed axes.",
       .infer_shapes = ReverseShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("ReverseV2", {g.grad(0), g.input(1)}));
         return OkStatus();
       }},
      {.name = "ReverseSequence",
       .summary = "Reverses the first seq_lengths[i] elements along seq_dim of slice i along batch_dim.",
       .infer_shapes = ReverseSequenceShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("ReverseSequence", {g.grad(0), g.input(1)},
                                   {{"seq_dim", g.attr<int64_t>("seq_dim")},
                                    {"batch_dim", g.attr<int64_t>("batch_dim")}}));
         return OkStatus();
       }},
      {.name = "Roll",
       .summary =
           "Moves elements by shift[i] places along axis[i]; what leaves at one end comes in at the other.",
       .infer_shapes = RollShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("Roll", {g.grad(0), formulas::Neg(g, g.input(1)), g.input(2)}));
         return OkStatus();
       }},
      {.name = "SpaceToDepth",
       .summary = "Moves square blocks of an image into its depth.",
       .infer_shapes = SpaceToDepthShape,
       .gradient = [](GradientContext& g) { return OtherWay(g, "DepthToSpace"); }},
      {.name = "DepthToSpace",
       .summary = "Moves the depth of an image into square blocks.",
       .infer_shapes = DepthToSpaceShape,
       .gradient = [](GradientContext& g) { return OtherWay(g, "SpaceToDepth"); }},
      {.name = "SpaceToBatchND",
       .summary = "Pads the dimensions behind the batch with zeros and moves blocks of them into the batch.",
       .infer_shapes = SpaceToBatchShape,
       .gradient = [](GradientContext& g) { return WithSameBlocks(g, "BatchToSpaceND"); }},
      {.name = "BatchToSpaceND",
       .summary = "Moves the batch into blocks of the dimensions behind it and crops them.",
       .infer_shapes = BatchToSpaceShape,
       .gradient = [](GradientContext& g) { return WithSameBlocks(g, "SpaceToBatchND"); }},
  };
}

}  // namespace weir
