// The equation of an Einsum: "ij,jk->ik", "...ij,...jk->...ik".
//
// Every character but '.', ',' and "->" is a label of one axis. "..." stands for any number of axes, which
// broadcast between the inputs as in numpy. Labels that the output lacks are summed over; a label that a term
// has twice is a diagonal. Values, safe to share between threads.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

// The labels of a term's axes: characters as they are, axes of the ellipsis as -1, -2... from its last one
// on.
using AxisLabels = std::vector<int>;
inline bool IsEllipsisLabel(int label) { return label < 0; }

class EinsumEquation {
 public:
  // InvalidArgument when there is not one arrow with one or two inputs before it, when an ellipsis is not
  // three dots or stands twice in a term, or when the output has a label that no input has.
  static absl::StatusOr<EinsumEquation> Parse(absl::string_view equation);

  // The terms as they were written, but for "." in place of "...".
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::string& output() const { return output_; }
  static bool HasEllipsis(absl::string_view term) { return term.find('.') != absl::string_view::npos; }
  // As it may stand in an equation.
  static std::string Written(absl::string_view term);

  // The labels of a tensor of that rank. InvalidArgument when the term does not fit the rank.
  static absl::StatusOr<AxisLabels> LabelsOf(absl::string_view term, int rank);
  // Those of the output, with the axes that the ellipses of the inputs stand for. InvalidArgument when there
  // are some and the output has no ellipsis.
  absl::StatusOr<AxisLabels> OutputLabels(const std::vector<AxisLabels>& inputs) const;

 private:
  std::vector<std::string> inputs_;
  std::string output_;
};

}  // namespace weir
