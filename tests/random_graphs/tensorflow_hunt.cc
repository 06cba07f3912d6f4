#include "tests/random_graphs/tensorflow_hunt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "tests/random_graphs/expectation.h"
#include "tests/random_graphs/print.h"
#include "tests/random_graphs/shrink.h"

namespace weir::random_graphs {
namespace {

constexpr int kNoisyRuns = 20;
constexpr int kShrinkAttempts = 400;

std::string FirstLine(const Tensor& text) {
  const std::string& all = text.scalar<std::string>();
  return all.substr(0, std::min<size_t>(all.find('\n'), 160));
}

// How far `found` is from the expected value, per element; empty when dtype or shape differ.
std::optional<std::vector<double>> DistanceTo(const Tensor& found, const Expected& expected) {
  const Shape shape(absl::MakeConstSpan(expected.value.dims()));
  if (found.dtype() != expected.dtype || found.shape() != shape) return std::nullopt;
  const Array array = Array::FromTensor(found);
  std::vector<double> distance(array.size());
  for (int64_t i = 0; i < array.size(); ++i) {
    distance[i] = std::abs(array[i].real() - expected.value[i].real());
  }
  return distance;
}

// "" when TensorFlow's tensor is the expected one, as far as that is defined.
std::string CompareWithTensorFlow(const Output& fetch, const Tensor& tensorflow, const Expected& expected) {
  const auto distance = DistanceTo(tensorflow, expected);
  bool is_close = distance.has_value();
  for (size_t i = 0; is_close && i < distance->size(); ++i) {
    is_close = (*distance)[i] <= 4 * expected.allowance[i];
  }
  if (is_close) return "";
  return absl::StrCat("'", fetch.name(), "' is ", tensorflow.ToString(30), " in TensorFlow, and here ",
                      expected.value.ToTensor(expected.dtype).ToString(30));
}

// The fetch that is the gradient, or -1.
int FetchOf(const GraphCase& graph_case, const Output& result) {
  const auto& fetches = graph_case.fetches;
  const auto found = std::find(fetches.begin(), fetches.end(), result);
  return result && found != fetches.end() ? static_cast<int>(found - fetches.begin()) : -1;
}

bool IsZero(const Tensor& tensor) {
  const Array array = Array::FromTensor(tensor);
  for (int64_t i = 0; i < array.size(); ++i) {
    if (!array[i].is_zero()) return false;
  }
  return true;
}

std::string CompareGradients(const GraphCase& graph_case, const TensorFlowResults& tensorflow,
                             const std::vector<Expected>& expected, const std::vector<Tensor>& weir) {
  // A rule may use a node's output where TensorFlow's computes it from the inputs: with a feed in its place
  // they differ, and both are right.
  for (const auto& [output, value] : graph_case.feeds) {
    if (output.node->op_name() != "Placeholder") return "";
  }
  for (size_t g = 0; g < graph_case.gradients.size(); ++g) {
    const GradientRequest& request = graph_case.gradients[g];
    for (size_t k = 0; k < request.xs.size(); ++k) {
      const int fetch = FetchOf(graph_case, request.results[k]);
      if (fetch < 0 || !expected[fetch].is_defined) continue;
      const auto found = tensorflow.find(absl::StrCat("g", g, "_x", k));
      std::string different;
      if (found != tensorflow.end()) {
        different = CompareWithTensorFlow(graph_case.fetches[fetch], found->second, expected[fetch]);
      } else if (!IsZero(weir[fetch])) {
        different = absl::StrCat("TensorFlow has none, here it is ", weir[fetch].ToString(30));
      }
      if (different.empty()) continue;
      return absl::StrCat("gradient: of '", request.y.name(), "' with respect to '", request.xs[k].name(),
                          "': ", different);
    }
  }
  return "";
}

}  // namespace

std::string TensorFlowHunt::Judge(const GraphCase& graph_case, const TensorFlowResults& tensorflow) {
  if (const auto error = tensorflow.find("error"); error != tensorflow.end()) {
    ++refusals_[FirstLine(error->second)];
    return "";
  }
  const absl::StatusOr<Expectation> expectation = Expect(graph_case, kNoisyRuns);
  if (!expectation.ok()) return absl::StrCat("interpreter: ", expectation.status().ToString());
  Random random(0);
  const absl::StatusOr<Results> weir = runner_.Run(graph_case, Way::kPlain, random);
  if (!weir.ok()) return absl::StrCat("refused here: ", weir.status().ToString());
  for (int step = 0; step < graph_case.num_steps; ++step) {
    for (size_t i = 0; i < graph_case.fetches.size(); ++i) {
      const Expected& expected = expectation->steps[step][i];
      if (!expected.is_defined) continue;
      const Tensor& theirs = tensorflow.at(absl::StrCat("s", step, "_f", i));
      std::string different = CompareWithTensorFlow(graph_case.fetches[i], theirs, expected);
      if (!different.empty()) return absl::StrCat("meaning: ", different);
      std::vector<double> slack = *DistanceTo(theirs, expected);
      for (double& distance : slack) distance *= 4;
      const absl::Status status = Compare(graph_case.fetches[i], (*weir)[step][i], expected, slack);
      if (!status.ok()) return absl::StrCat("value: ", status.message());
    }
  }
  if (const auto error = tensorflow.find("gradient_error"); error != tensorflow.end()) {
    ++refusals_[FirstLine(error->second)];
    return "";
  }
  return CompareGradients(graph_case, tensorflow, expectation->steps[0], (*weir)[0]);
}

std::string TensorFlowHunt::Shrunken(GraphCase graph_case, std::string message) {
  const std::string kind = message.substr(0, message.find(':'));
  const auto refusals = refusals_;
  const auto still_fails = [&](const GraphCase& candidate) {
    const GraphCase* const cases[] = {&candidate};
    const auto results = oracle_.Ask(cases);
    if (!results.ok()) return false;
    std::string again = Judge(candidate, (*results)[0]);
    if (again.substr(0, again.find(':')) != kind) return false;
    message = std::move(again);
    return true;
  };
  const GraphCase small =
      Shrink(std::move(graph_case), still_fails,
             {.max_attempts = kShrinkAttempts, .differentiates_again = kind == "gradient"});
  refusals_ = refusals;
  return absl::StrCat(message, "\n", PrintCase(small));
}

absl::StatusOr<std::vector<std::string>> TensorFlowHunt::Hunt(uint64_t first, int64_t count,
                                                              const GeneratorOptions& options) {
  std::vector<std::pair<uint64_t, GraphCase>> cases;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    absl::StatusOr<GraphCase> graph_case = Generate(seed, options);
    if (graph_case.ok()) cases.emplace_back(seed, *std::move(graph_case));
  }
  std::vector<const GraphCase*> asked;
  for (const auto& [seed, graph_case] : cases) asked.push_back(&graph_case);
  WEIR_ASSIGN_OR_RETURN(const std::vector<TensorFlowResults> results, oracle_.Ask(asked));
  std::vector<std::string> findings;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::string message = Judge(cases[i].second, results[i]);
    if (message.empty()) continue;
    message = Shrunken(std::move(cases[i].second), std::move(message));
    findings.push_back(absl::StrCat("seed ", cases[i].first, ", TensorFlow: ", message));
  }
  return findings;
}

}  // namespace weir::random_graphs
