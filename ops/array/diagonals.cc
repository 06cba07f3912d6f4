// Ops on the diagonals of matrices, the last two dimensions of a tensor. Diagonal k of a matrix has the
// elements [i, i + k]; a band k = (lower, upper) is a matrix of its diagonals, the uppermost first, with the
// shorter ones padded on the side that `align` says.
#include <algorithm>
#include <array>
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

struct Band {
  int64_t lower = 0, upper = 0;
};

// The k of input `index`; nullopt when only a step can tell. Without such an input: the main diagonal.
absl::StatusOr<std::optional<Band>> BandInput(ShapeInference& s, int index) {
  if (index >= s.num_inputs()) return std::optional<Band>(Band{});
  const PartialShape& shape = s.input(index);
  if (shape.has_rank() && shape.rank() > 1) {
    return InvalidArgumentError(StrCat("k must be a scalar or a vector, is ", shape.ToString()));
  }
  const auto k = s.input_integers(index);
  if (!k) return std::optional<Band>();
  if (k->empty() || k->size() > 2 || k->front() > k->back()) {
    return InvalidArgumentError("k must be one diagonal, or the lower and the upper end of a band");
  }
  return std::optional<Band>(Band{k->front(), k->back()});
}

// The shape of the diagonals of matrices `input`.
absl::StatusOr<PartialShape> DiagonalsShape(const PartialShape& input, const std::optional<Band>& band) {
  if (!input.has_rank() || !band) return PartialShape();
  const int64_t rows = input.dim(input.rank() - 2), cols = input.dim(input.rank() - 1);
  for (const int64_t k : {band->lower, band->upper}) {
    if (k == 0 || rows == kUnknown || cols == kUnknown || (-rows < k && k < cols)) continue;
    return InvalidArgumentError(StrCat("k ", k, " is outside of a matrix of ", input.ToString()));
  }
  std::vector<int64_t> dims = DimsOf(input);
  dims.resize(dims.size() - 2);
  if (band->lower != band->upper) dims.push_back(band->upper - band->lower + 1);
  const bool is_known = rows != kUnknown && cols != kUnknown;
  dims.push_back(!is_known ? kUnknown
                           : std::min(rows + std::min<int64_t>(band->upper, 0),
                                      cols - std::max<int64_t>(band->lower, 0)));
  return PartialShape::FromDims(dims);
}

Status DiagPartShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 2));
  WEIR_ASSIGN_OR_RETURN(const auto band, BandInput(s, 1));
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, DiagonalsShape(input, band));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Status SetDiagShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 2));
  WEIR_ASSIGN_OR_RETURN(const auto band, BandInput(s, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape wanted, DiagonalsShape(input, band));
  if (!s.input(1).IsCompatibleWith(wanted)) {
    return InvalidArgumentError(StrCat("diagonal must be ", wanted.ToString(), " for input ",
                                       input.ToString(), ", is ", s.input(1).ToString()));
  }
  return UnchangedShape(s);
}

// The rows or columns that the scalar input asks for; -1: those that the diagonals need.
absl::StatusOr<std::optional<int64_t>> SizeInput(ShapeInference& s, int index) {
  if (index >= s.num_inputs()) return std::optional<int64_t>(-1);
  return ScalarInput(s, index);
}

Status DiagShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape diagonal, s.WithRankAtLeast(0, 1));
  WEIR_ASSIGN_OR_RETURN(const auto band, BandInput(s, 1));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> asked_rows, SizeInput(s, 2));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> asked_cols, SizeInput(s, 3));
  if (!diagonal.has_rank() || !band) return OkStatus();
  std::vector<int64_t> dims = DimsOf(diagonal);
  const int64_t length = dims.back();
  dims.pop_back();
  if (band->lower != band->upper) {
    const int64_t count = band->upper - band->lower + 1;
    if (dims.empty() || (dims.back() != kUnknown && dims.back() != count)) {
      return InvalidArgumentError(
          StrCat("k asks for ", count, " diagonals, diagonal is ", diagonal.ToString()));
    }
    dims.pop_back();
  }
  int64_t rows = kUnknown, cols = kUnknown;
  if (asked_rows && asked_cols && length != kUnknown) {
    const int64_t fewest_rows = length - std::min<int64_t>(band->upper, 0);
    const int64_t fewest_cols = length + std::max<int64_t>(band->lower, 0);
    rows = *asked_rows != -1 ? *asked_rows : fewest_rows;
    cols = *asked_cols != -1 ? *asked_cols : fewest_cols;
    if (*asked_rows == -1 && *asked_cols == -1) rows = cols = std::max(rows, cols);
    if (rows < fewest_rows || cols < fewest_cols || (rows != fewest_rows && cols != fewest_cols)) {
      return InvalidArgumentError(StrCat("diagonals of ", length, " elements need [", fewest_rows, ",",
                                         fewest_cols, "], num_rows and num_cols are ", rows, " and ", cols));
    }
  }
  dims.insert(dims.end(), {rows, cols});
  return SetOutputDims(s, 0, dims);
}

// ---- Gradients: all in the third version of the ops, which can say what the others do ----

AttrMap AlignOf(GradientContext& g) {
  const AttrValue* const align = g.node().FindAttr("align");
  return {{"align", align != nullptr ? align->get<std::string>() : std::string("LEFT_LEFT")}};
}

Output BandOf(GradientContext& g, int index) {
  return index < g.num_inputs() ? g.input(index) : g.Constant(DType::kInt32, 0);
}

Output DiagonalsOf(GradientContext& g, Output matrices, Output k) {
  return g.Add("MatrixDiagPartV3", {matrices, k, Zero(g, g.input(0))}, AlignOf(g));
}

Status DiagGradient(GradientContext& g) {
  g.set_input_grad(0, DiagonalsOf(g, g.grad(0), BandOf(g, 1)));
  return OkStatus();
}

Status DiagPartGradient(GradientContext& g) {
  g.set_input_grad(0,
                   g.Add("MatrixSetDiagV3", {ZerosLike(g, g.input(0)), g.grad(0), BandOf(g, 1)}, AlignOf(g)));
  return OkStatus();
}

Status SetDiagGradient(GradientContext& g) {
  const Output k = BandOf(g, 2);
  g.set_input_grad(0, g.Add("MatrixSetDiagV3", {g.grad(0), ZerosLike(g, g.input(1)), k}, AlignOf(g)));
  g.set_input_grad(1, DiagonalsOf(g, g.grad(0), k));
  return OkStatus();
}

OpDef Diagonals(std::string name, std::string summary, ShapeFunction shape, GradientFunction gradient) {
  return {
      .name = std::move(name), .summary = std::move(summary), .infer_shapes = shape, .gradient = gradient};
}

}  // namespace

std::vector<OpDef> DiagonalsOps() {
  return {
      Diagonals("MatrixDiag", "Gives matrices with the given main diagonals and zeros elsewhere.", DiagShape,
                DiagGradient),
      Diagonals("MatrixDiagV2", "Gives matrices with the given diagonals, and padding_value elsewhere.",
                DiagShape, DiagGradient),
      Diagonals(
          "MatrixDiagV3",
          "Gives matrices with the given diagonals, aligned as `align` says, and padding_value elsewhere.",
          DiagShape, DiagGradient),
      Diagonals("MatrixDiagPart", "Gives the main diagonals of matrices.", DiagPartShape, DiagPartGradient),
      Diagonals("MatrixDiagPartV2", "Gives diagonals of matrices, padded at their ends.", DiagPartShape,
                DiagPartGradient),
      Diagonals("MatrixDiagPartV3", "Gives diagonals of matrices, padded and aligned as `align` says.",
                DiagPartShape, DiagPartGradient),
      Diagonals("MatrixSetDiag", "Gives matrices with other main diagonals.", SetDiagShape, SetDiagGradient),
      Diagonals("MatrixSetDiagV2", "Gives matrices with other diagonals.", SetDiagShape, SetDiagGradient),
      Diagonals("MatrixSetDiagV3", "Gives matrices with other diagonals, aligned as `align` says.",
                SetDiagShape, SetDiagGradient),
      {.name = "MatrixBandPart",
       .summary = "Gives matrices with zeros outside a band; a negative width keeps that whole triangle.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRankAtLeast(0, 2).status());
         WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
         WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
         return UnchangedShape(s);
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("MatrixBandPart", {g.grad(0), g.input(1), g.input(2)}));
         return OkStatus();
       }},
      {.name = "Diag",
       .summary = "Gives a tensor of twice the rank with the input where both halves of the index are equal.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape diagonal, s.WithRankAtLeast(0, 1));
         if (!diagonal.has_rank()) return OkStatus();
         std::vector<int64_t> dims = DimsOf(diagonal);
         dims.insert(dims.end(), diagonal.dims().begin(), diagonal.dims().end());
         return SetOutputDims(s, 0, dims);
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("DiagPart", {g.grad(0)}));
         return OkStatus();
       }},
      {.name = "DiagPart",
       .summary = "Gives the elements whose index has two equal halves.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         const PartialShape& input = s.input(0);
         if (!input.has_rank()) return OkStatus();
         const int half = input.rank() / 2;
         std::vector<int64_t> dims;
         for (int i = 0; i < half; ++i) {
           const auto dim = s.MergeDims(input.dim(i), input.dim(i + half));
           if (dim.ok()) dims.push_back(*dim);
         }
         if (half == 0 || input.rank() % 2 != 0 || static_cast<int>(dims.size()) != half) {
           return InvalidArgumentError(
               StrCat("the two halves of input's dimensions must be equal: it is ", input.ToString()));
         }
         return SetOutputDims(s, 0, dims);
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("Diag", {g.grad(0)}));
         return OkStatus();
       }},
  };
}

}  // namespace weir
