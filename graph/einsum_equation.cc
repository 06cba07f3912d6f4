#include "graph/einsum_equation.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::StatusOr<std::string> ParseTerm(absl::string_view written, absl::string_view equation) {
  std::string term = absl::StrReplaceAll(written, {{"...", "."}});
  const auto dots = std::count(term.begin(), term.end(), '.');
  if (dots > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("equation '", equation, "': '", written, "' may have one ellipsis of three dots"));
  }
  return term;
}

}  // namespace

absl::StatusOr<EinsumEquation> EinsumEquation::Parse(absl::string_view equation) {
  const std::vector<absl::string_view> sides = absl::StrSplit(equation, "->");
  if (sides.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("equation '", equation, "' must have one '->'"));
  }
  EinsumEquation result;
  for (absl::string_view term : absl::StrSplit(sides[0], ',')) {
    WEIR_ASSIGN_OR_RETURN(std::string parsed, ParseTerm(term, equation));
    result.inputs_.push_back(std::move(parsed));
  }
  if (result.inputs_.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat("equation '", equation, "' has ", result.inputs_.size(),
                                                   " inputs; one or two are supported, as in TensorFlow"));
  }
  WEIR_ASSIGN_OR_RETURN(result.output_, ParseTerm(sides[1], equation));
  for (const char label : result.output_) {
    const bool is_known = label == '.' || std::any_of(result.inputs_.begin(), result.inputs_.end(),
                                                      [&](const std::string& input) {
                                                        return input.find(label) != std::string::npos;
                                                      });
    if (!is_known) {
      return absl::InvalidArgumentError(absl::StrCat("equation '", equation, "': no input has the label '",
                                                     std::string(1, label), "' of the output"));
    }
  }
  return result;
}

std::string EinsumEquation::Written(absl::string_view term) {
  return absl::StrReplaceAll(term, {{".", "..."}});
}

absl::StatusOr<AxisLabels> EinsumEquation::LabelsOf(absl::string_view term, int rank) {
  const int named = static_cast<int>(term.size()) - (HasEllipsis(term) ? 1 : 0);
  if (rank < named || (rank > named && !HasEllipsis(term))) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Written(term), "' does not fit a tensor of rank ", rank));
  }
  AxisLabels labels;
  for (const char label : term) {
    if (label != '.') {
      labels.push_back(static_cast<unsigned char>(label));
      continue;
    }
    for (int k = rank - named; k > 0; --k) labels.push_back(-k);
  }
  return labels;
}

absl::StatusOr<AxisLabels> EinsumEquation::OutputLabels(const std::vector<AxisLabels>& inputs) const {
  int lowest = 0;
  for (const AxisLabels& labels : inputs) {
    for (const int label : labels) lowest = std::min(lowest, label);
  }
  if (lowest < 0 && !HasEllipsis(output_)) {
    return absl::InvalidArgumentError(absl::StrCat("the ellipsis of the inputs stands for ", -lowest,
                                                   " axes, but the output '", output_, "' has none"));
  }
  const int named = static_cast<int>(output_.size()) - (HasEllipsis(output_) ? 1 : 0);
  return LabelsOf(output_, named - lowest);
}

}  // namespace weir
