// TensorFlow as a second oracle: the same graphs, run by the real thing.
//
// Starts one Python process (tensorflow_oracle.py) that answers batches of cases until this object goes. Not
// thread-safe.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"
#include "tests/random_graphs/graph_case.h"

namespace weir::random_graphs {

// By the names that tensorflow_oracle.py gives: "s0_f1", "g0_x1", "error", "gradient_error".
using TensorFlowResults = std::map<std::string, Tensor>;

class TensorFlowOracle {
 public:
  // `python` has TensorFlow; `folder` is for the files that go to and fro.
  static absl::StatusOr<std::unique_ptr<TensorFlowOracle>> Start(const std::string& python,
                                                                 const std::string& script,
                                                                 const std::string& folder);
  ~TensorFlowOracle();

  // One result for each case.
  absl::StatusOr<std::vector<TensorFlowResults>> Ask(absl::Span<const GraphCase* const> cases);

 private:
  TensorFlowOracle(std::string folder, pid_t process, FILE* to, FILE* from)
      : folder_(std::move(folder)), process_(process), to_(to), from_(from) {}

  const std::string folder_;
  const pid_t process_;
  FILE* const to_;
  FILE* const from_;
};

}  // namespace weir::random_graphs
