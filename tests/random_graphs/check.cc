#include "tests/random_graphs/check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "tests/random_graphs/expectation.h"

namespace weir::random_graphs {
namespace {

constexpr int kNoisyRuns = 3;
constexpr int kManyNoisyRuns = 40;

absl::Status CompareAll(const GraphCase& graph_case, const Results& results, const Expectation& expectation) {
  for (size_t step = 0; step < results.size(); ++step) {
    for (size_t i = 0; i < graph_case.fetches.size(); ++i) {
      if (!results[step][i].is_valid()) continue;
      const absl::Status status =
          Compare(graph_case.fetches[i], results[step][i], expectation.steps[step][i]);
      if (!status.ok()) return absl::InternalError(absl::StrCat("step ", step, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

// Whether everything that runs has a defined value: then no step may fail.
bool IsDefined(const Expectation& expectation) {
  for (const Trace& trace : expectation.traces) {
    for (const auto& [key, values] : trace) {
      if (values.is_undefined) return false;
    }
  }
  for (const auto& step : expectation.steps) {
    for (const Expected& expected : step) {
      if (!expected.is_defined) return false;
    }
  }
  return true;
}

}  // namespace

Finding Check(const GraphCase& graph_case, const std::vector<Way>& ways, uint64_t seed, Runner& runner) {
  absl::StatusOr<Expectation> expectation = Expect(graph_case, kNoisyRuns);
  if (!expectation.ok()) return {{}, absl::StrCat("the interpreter: ", expectation.status().ToString())};
  bool has_many = false;
  for (const Way way : ways) {
    Random random(seed * 31 + static_cast<uint64_t>(way));
    const absl::StatusOr<Results> results = runner.Run(graph_case, way, random);
    absl::Status status = results.ok() ? CompareAll(graph_case, *results, *expectation) : results.status();
    if (status.ok()) continue;
    if (!has_many) {
      expectation = Expect(graph_case, kManyNoisyRuns);
      if (!expectation.ok()) return {{}, absl::StrCat("the interpreter: ", expectation.status().ToString())};
      has_many = true;
    }
    if (results.ok()) status = CompareAll(graph_case, *results, *expectation);
    if (status.ok() || (!results.ok() && !IsDefined(*expectation))) continue;
    return {way, absl::StrCat(WayName(way), ": ", status.ToString())};
  }
  if (const absl::Status status = CheckDerivatives(graph_case, *expectation); !status.ok()) {
    return {{}, absl::StrCat("gradients: ", status.ToString())};
  }
  return {};
}

Finding CheckGradients(const GraphCase& graph_case) {
  const absl::StatusOr<Expectation> expectation = Expect(graph_case, 0);
  if (!expectation.ok()) return {};
  const absl::Status status = CheckDerivatives(graph_case, *expectation);
  if (status.ok()) return {};
  return {{}, absl::StrCat("gradients: ", status.ToString())};
}

}  // namespace weir::random_graphs
