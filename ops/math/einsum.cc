// Sums of products by an equation.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/einsum_equation.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// The dimension of an axis that two inputs share; those of an ellipsis broadcast.
absl::StatusOr<int64_t> MergeAxis(int label, int64_t a, int64_t b) {
  if (a == b) return a;
  if (IsEllipsisLabel(label)) {
    if (a == 1) return b;
    if (b == 1) return a;
    // One that is larger than 1 wins over what is not known.
    if (a == kUnknown) return b;
    if (b == kUnknown) return a;
  }
  if (a == kUnknown) return b;
  if (b == kUnknown) return a;
  return InvalidArgumentError(StrCat("dimensions ", a, " and ", b, " of one label differ"));
}

Status EinsumShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const EinsumEquation equation,
                        EinsumEquation::Parse(s.attr<std::string>("equation")));
  if (static_cast<int>(equation.inputs().size()) != s.num_inputs()) {
    return InvalidArgumentError(
        StrCat("the equation has ", equation.inputs().size(), " inputs, given are ", s.num_inputs()));
  }
  std::vector<AxisLabels> labels;
  std::map<int, int64_t> dims;
  for (int i = 0; i < s.num_inputs(); ++i) {
    const PartialShape& shape = s.input(i);
    if (!shape.has_rank()) {
      // Without an ellipsis the term tells the rank.
      if (EinsumEquation::HasEllipsis(equation.inputs()[i])) return OkStatus();
      WEIR_ASSIGN_OR_RETURN(
          AxisLabels own,
          EinsumEquation::LabelsOf(equation.inputs()[i], static_cast<int>(equation.inputs()[i].size())));
      for (const int label : own) dims.try_emplace(label, kUnknown);
      labels.push_back(std::move(own));
      continue;
    }
    absl::StatusOr<AxisLabels> own = EinsumEquation::LabelsOf(equation.inputs()[i], shape.rank());
    if (!own.ok()) {
      return InvalidArgumentError(
          StrCat(s.input_name(i), " is ", shape.ToString(), ": ", own.status().message()));
    }
    for (size_t axis = 0; axis < own->size(); ++axis) {
      const int64_t dim = shape.dim(static_cast<int>(axis));
      const auto [entry, is_new] = dims.try_emplace((*own)[axis], dim);
      if (is_new) continue;
      const auto merged = MergeAxis((*own)[axis], entry->second, dim);
      if (!merged.ok()) {
        return InvalidArgumentError(
            StrCat(s.input_name(i), " is ", shape.ToString(), ": ", merged.status().message()));
      }
      entry->second = *merged;
    }
    labels.push_back(*std::move(own));
  }
  WEIR_ASSIGN_OR_RETURN(const AxisLabels output, equation.OutputLabels(labels));
  std::vector<int64_t> result;
  for (const int label : output) result.push_back(dims.at(label));
  return SetOutputDims(s, 0, result);
}

// `term` with each label once and without those that only it has, its ellipsis first.
std::string Distinct(const std::string& term, const std::string& kept) {
  std::string result;
  for (const char label : term) {
    const bool is_kept = label == '.' || kept.find(label) != std::string::npos;
    if (is_kept && result.find(label) == std::string::npos) result.push_back(label);
  }
  return result;
}

// The gradient of one input: the others times the gradient of the output, with the labels exchanged. Labels
// that only this input has were summed over: the gradient is the same all along them. Along its ellipsis the
// input may have been repeated: the gradient is summed there.
class InputGradient {
 public:
  InputGradient(GradientContext& g, const EinsumEquation& equation, int input)
      : g_(g), equation_(equation), input_(input), term_(equation.inputs()[input]) {}

  Output Compute() {
    const bool has_other = equation_.inputs().size() == 2;
    const std::string other = has_other ? equation_.inputs()[1 - input_] : "";
    const std::string kept = Distinct(term_, equation_.output() + other);
    const bool has_ellipsis = EinsumEquation::HasEllipsis(term_);
    std::string result = kept;
    if (!has_ellipsis && EinsumEquation::HasEllipsis(equation_.output())) result = "." + kept;
    result = EllipsisFirst(result);
    std::vector<Output> operands = {g_.grad(0)};
    std::string left = equation_.output();
    if (has_other) {
      operands.push_back(g_.input(1 - input_));
      left += "," + other;
    }
    Output gradient = Einsum(left + "->" + result, operands);
    gradient = SumEllipsis(gradient, kept, result);
    return PutBack(gradient, EllipsisFirst(kept));
  }

 private:
  static std::string EllipsisFirst(const std::string& term) {
    if (!EinsumEquation::HasEllipsis(term)) return term;
    std::string result = ".";
    for (const char label : term) {
      if (label != '.') result.push_back(label);
    }
    return result;
  }

  Output Einsum(const std::string& equation, std::vector<Output> operands) {
    return g_.Add("Einsum", {std::move(operands)}, {{"equation", EinsumEquation::Written(equation)}});
  }

  // Sums along the axes of the ellipsis that this input does not have or was repeated along.
  Output SumEllipsis(Output gradient, const std::string& kept, const std::string& result) {
    const bool has_ellipsis = EinsumEquation::HasEllipsis(kept);
    const bool may_be_repeated =
        EinsumEquation::HasEllipsis(result) &&
        (!has_ellipsis ||
         (equation_.inputs().size() == 2 && EinsumEquation::HasEllipsis(equation_.inputs()[1 - input_])));
    if (!may_be_repeated) return gradient;
    // The input with the axes of the gradient: its shape is what the gradient must have.
    const std::string wanted = EllipsisFirst(kept);
    const Output like =
        wanted == term_ ? g_.input(input_) : Einsum(term_ + "->" + wanted, {g_.input(input_)});
    const Output shape = g_.Add("Shape", {like});
    Node* axes = g_.graph().AddNode("BroadcastGradientArgs", {shape, g_.Add("Shape", {gradient})}, {}, "",
                                    g_.node().source());
    if (axes == nullptr) return {};
    return Reshape(g_, Sum(g_, gradient, axes->output(0)), shape);
  }

  // From the distinct labels to the input's own axes.
  Output PutBack(Output gradient, const std::string& found) {
    if (found == term_) return gradient;
    const std::string own = Distinct(term_, term_);
    if (EllipsisFirst(own).size() != found.size()) {
      // Labels of this input alone: ones in the input's shape bring their axes.
      const Output ones = g_.Add("OnesLike", {g_.input(input_)});
      return Einsum(found + "," + term_ + "->" + term_, {gradient, ones});
    }
    return Einsum(found + "->" + term_, {gradient});
  }

  GradientContext& g_;
  const EinsumEquation& equation_;
  const int input_;
  const std::string& term_;
};

Status EinsumGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  WEIR_ASSIGN_OR_RETURN(const EinsumEquation equation,
                        EinsumEquation::Parse(g.attr<std::string>("equation")));
  for (int i = 0; i < g.num_inputs(); ++i) g.set_input_grad(i, InputGradient(g, equation, i).Compute());
  return OkStatus();
}

}  // namespace

std::vector<OpDef> EinsumOps() {
  return {
      {.name = "Einsum",
       .summary = "Sums products of the elements of one or two tensors by an equation, as \"ij,jk->ik\".",
       .infer_shapes = EinsumShape,
       .gradient = EinsumGradient},
  };
}

}  // namespace weir
