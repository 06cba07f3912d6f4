// Compares cases with TensorFlow: forward values of the same graph, and tf.gradients with AddGradients.
//
// Criterion: |weir - ref| <= 4 |tf - ref| + the allowance of expectation.h, element by element; and
// TensorFlow and the interpreter may differ by 4 allowances, for where they differ more an op means something
// else here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/random_graphs/generator.h"
#include "tests/random_graphs/runner.h"
#include "tests/random_graphs/tensorflow_oracle.h"

namespace weir::random_graphs {

class TensorFlowHunt {
 public:
  // Borrows both.
  TensorFlowHunt(TensorFlowOracle& oracle, Runner& runner) : oracle_(oracle), runner_(runner) {}

  // Findings among the seeds [first, first + count), shrunken. An error when TensorFlow cannot be asked.
  absl::StatusOr<std::vector<std::string>> Hunt(uint64_t first, int64_t count,
                                                const GeneratorOptions& options);

  // How many cases TensorFlow refused, by the first line of its error: they compare nothing.
  const std::map<std::string, int>& refusals() const { return refusals_; }

 private:
  // What differs, or "". The kind of difference comes first, up to a colon.
  std::string Judge(const GraphCase& graph_case, const TensorFlowResults& tensorflow);
  std::string Shrunken(GraphCase graph_case, std::string message);

  TensorFlowOracle& oracle_;
  Runner& runner_;
  std::map<std::string, int> refusals_;
};

}  // namespace weir::random_graphs
