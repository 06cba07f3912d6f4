#include "tests/random_graphs/expectation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir::random_graphs {
namespace {

constexpr uint64_t kNoiseSeed = 20160101;

absl::StatusOr<Variables> Initialized(const GraphCase& graph_case) {
  Variables variables;
  if (graph_case.initializer != nullptr) {
    WEIR_RETURN_IF_ERROR(
        Interpreter(graph_case.graph()).Step({}, {}, {graph_case.initializer}, &variables).status());
  }
  return variables;
}

Expected FirstExpectation(const Trace& trace, const Output& fetch) {
  Expected expected;
  expected.dtype = fetch.dtype();
  const NodeValues& values = trace.at({fetch.node->id(), {}});
  if (!values.outputs[fetch.index]) return expected;
  expected.value = *values.outputs[fetch.index];
  expected.is_defined = !values.is_undefined;
  expected.allowance.assign(expected.value.size(), 0);
  if (!IsFloating(expected.dtype)) return expected;
  for (int64_t i = 0; i < expected.value.size(); ++i) {
    expected.allowance[i] =
        32 * Epsilon(expected.dtype) * std::max(std::abs(expected.value[i].real()), 0.125);
  }
  return expected;
}

void AddNoisyRun(const Trace& trace, const Output& fetch, std::vector<double>* spread, Expected* expected) {
  const NodeValues& values = trace.at({fetch.node->id(), {}});
  expected->is_defined = expected->is_defined && !values.is_undefined && values.outputs[fetch.index] &&
                         values.outputs[fetch.index]->dims() == expected->value.dims();
  if (!expected->is_defined || !IsFloating(expected->dtype)) return;
  spread->resize(expected->value.size());
  for (int64_t i = 0; i < expected->value.size(); ++i) {
    const double moved = std::abs((*values.outputs[fetch.index])[i].real() - expected->value[i].real());
    (*spread)[i] = std::max((*spread)[i], moved);
  }
}

}  // namespace

Interpreter::Feeds FeedArrays(const GraphCase& graph_case) {
  Interpreter::Feeds feeds;
  for (const auto& [output, value] : graph_case.feeds) feeds.emplace(output, Array::FromTensor(value));
  return feeds;
}

absl::StatusOr<Expectation> Expect(const GraphCase& graph_case, int num_noisy_runs) {
  const Interpreter interpreter(graph_case.graph());
  const Interpreter::Feeds feeds = FeedArrays(graph_case);
  Expectation result;
  WEIR_ASSIGN_OR_RETURN(result.initial, Initialized(graph_case));
  Variables variables = result.initial;
  for (int step = 0; step < graph_case.num_steps; ++step) {
    WEIR_ASSIGN_OR_RETURN(Trace trace,
                          interpreter.Step(feeds, graph_case.fetches, graph_case.targets, &variables));
    std::vector<Expected> fetches;
    for (const Output& fetch : graph_case.fetches) fetches.push_back(FirstExpectation(trace, fetch));
    result.steps.push_back(std::move(fetches));
    result.traces.push_back(std::move(trace));
  }
  std::vector<std::vector<std::vector<double>>> spread(
      graph_case.num_steps, std::vector<std::vector<double>>(graph_case.fetches.size()));
  Random noise(kNoiseSeed);
  for (int run = 0; run < num_noisy_runs; ++run) {
    variables = result.initial;
    for (int step = 0; step < graph_case.num_steps; ++step) {
      WEIR_ASSIGN_OR_RETURN(const Trace trace,
                            interpreter.Step(feeds, graph_case.fetches, graph_case.targets, &variables,
                                             {.noise = &noise, .base = &result.traces[step]}));
      for (size_t i = 0; i < graph_case.fetches.size(); ++i) {
        AddNoisyRun(trace, graph_case.fetches[i], &spread[step][i], &result.steps[step][i]);
      }
    }
  }
  for (size_t step = 0; step < spread.size(); ++step) {
    for (size_t i = 0; i < spread[step].size(); ++i) {
      for (size_t k = 0; k < spread[step][i].size(); ++k)
        result.steps[step][i].allowance[k] += 8 * spread[step][i][k];
    }
  }
  return result;
}

absl::Status Compare(const Output& fetch, const Tensor& found, const Expected& expected,
                     const std::vector<double>& slack) {
  if (!expected.is_defined) return absl::OkStatus();
  const Shape shape(absl::MakeConstSpan(expected.value.dims()));
  if (found.dtype() != expected.dtype || found.shape() != shape) {
    return absl::InternalError(absl::StrCat("'", fetch.name(), "' is ", found.ToString(), ", must be ",
                                            expected.value.ToTensor(expected.dtype).ToString()));
  }
  if (!fetch.shape().IsCompatibleWith(found.shape())) {
    return absl::InternalError(absl::StrCat("'", fetch.name(), "' is ", found.ToString(),
                                            ", its inferred shape is ", fetch.shape().ToString()));
  }
  const Array array = Array::FromTensor(found);
  for (int64_t i = 0; i < array.size(); ++i) {
    const double a = array[i].real(), b = expected.value[i].real();
    const double allowed = expected.allowance[i] + (slack.empty() ? 0 : slack[i]);
    if (std::abs(a - b) <= allowed) continue;
    return absl::InternalError(absl::StrCat("'", fetch.name(), "' at element ", i, " is ", a, ", must be ", b,
                                            " within ", allowed, "; it is ", found.ToString(40), ", must be ",
                                            expected.value.ToTensor(expected.dtype).ToString(40)));
  }
  return absl::OkStatus();
}

namespace {

// One gradient: y's weighted sum as a function of how far x is moved along a direction.
class Derivative {
 public:
  Derivative(const GraphCase& graph_case, const Expectation& expectation, const GradientRequest& request)
      : graph_(graph_case.graph()),
        expectation_(expectation),
        request_(request),
        interpreter_(graph_),
        feeds_(FeedArrays(graph_case)) {}

  absl::Status Check(const Output& x, const Output& result) {
    if (IsCutByFeeds() || x == request_.y) return absl::OkStatus();
    std::vector<Output> wanted = {request_.y, x, result};
    if (request_.grad_y) wanted.push_back(request_.grad_y);
    WEIR_ASSIGN_OR_RETURN(const Trace trace, Exactly(feeds_, wanted));
    for (const Output& output : wanted) {
      if (!IsDefined(trace, output)) return absl::OkStatus();
    }
    const Array at = Value(trace, x), gradient = Value(trace, result);
    if (at.dims() != gradient.dims()) {
      return absl::InternalError(absl::StrCat("the gradient '", result.name(), "' of '", x.name(), "' is ",
                                              gradient.ToTensor(x.dtype()).ToString(), ", '", x.name(),
                                              "' is ", at.ToTensor(x.dtype()).ToString()));
    }
    Freeze(trace);
    for (const auto& [key, values] : trace) {
      const Node& node = *graph_.node(key.first);
      for (const DType dtype : node.output_types()) {
        if (IsFloating(dtype)) epsilon_ = std::max(epsilon_, Epsilon(dtype));
      }
    }
    if (request_.grad_y) weights_ = Value(trace, request_.grad_y);
    Random random(kNoiseSeed);
    Array direction(at.dims());
    double wanted_slope = 0, magnitude = 0;
    for (int64_t i = 0; i < at.size(); ++i) {
      direction[i] = random.Real(-1, 1);
      wanted_slope += gradient[i].real() * direction[i].real();
      magnitude += std::abs(gradient[i].real() * direction[i].real());
    }
    return CheckSlope(x, at, direction, wanted_slope, magnitude, result);
  }

 private:
  static bool IsDefined(const Trace& trace, const Output& output) {
    auto found = trace.find({output.node->id(), {}});
    return found != trace.end() && found->second.outputs[output.index] && !found->second.is_undefined;
  }
  static const Array& Value(const Trace& trace, const Output& output) {
    return *trace.at({output.node->id(), {}}).outputs[output.index];
  }

  absl::StatusOr<Trace> Exactly(const Interpreter::Feeds& feeds, const std::vector<Output>& outputs) {
    Variables variables = expectation_.initial;
    return interpreter_.Step(feeds, outputs, {}, &variables,
                             {.base = &expectation_.traces[0], .rounds = false});
  }

  // AddGradients knows nothing of feeds, so with one between x and y it gives another derivative.
  bool IsCutByFeeds() const {
    return std::any_of(feeds_.begin(), feeds_.end(),
                       [](const auto& feed) { return feed.first.node->op_name() != "Placeholder"; });
  }

  // What lets no gradient through stays what it is, and what a variable holds.
  void Freeze(const Trace& trace) {
    for (const auto& [key, values] : trace) {
      Node* node = graph_.node(key.first);
      const bool lets_through = node->op().def().gradient != NotDifferentiable;
      const bool reads_state = !node->inputs().empty() && node->inputs()[0].dtype() == DType::kResource;
      if (lets_through && node->op_name() != "StopGradient" && !reads_state) continue;
      if (!key.second.empty()) continue;
      for (int i = 0; i < node->num_outputs(); ++i) {
        if (values.outputs[i] && IsFloating(node->output_type(i))) {
          feeds_.emplace(node->output(i), *values.outputs[i]);
        }
      }
    }
  }

  // nullopt where the value is not defined.
  absl::StatusOr<std::optional<double>> SumAt(const Output& x, const Array& at, const Array& direction,
                                              double step) {
    Interpreter::Feeds feeds = feeds_;
    Array moved = at;
    for (int64_t i = 0; i < at.size(); ++i) moved[i] = at[i].real() + step * direction[i].real();
    feeds[x] = moved;
    WEIR_ASSIGN_OR_RETURN(const Trace trace, Exactly(feeds, {request_.y}));
    if (!IsDefined(trace, request_.y)) return std::optional<double>();
    const Array& y = Value(trace, request_.y);
    double sum = 0;
    for (int64_t i = 0; i < y.size(); ++i) sum += y[i].real() * (weights_ ? (*weights_)[i].real() : 1);
    return std::optional<double>(sum);
  }

  struct Slope {
    double mean() const { return (before + after) / 2; }
    double before, after;  // over the step to here, and from here
    double sum;            // here
  };

  // nullopt where the value is not defined.
  absl::StatusOr<std::optional<Slope>> SlopeAt(const Output& x, const Array& at, const Array& direction,
                                               double step) {
    double sums[3];
    for (int i = 0; i < 3; ++i) {
      WEIR_ASSIGN_OR_RETURN(const std::optional<double> sum, SumAt(x, at, direction, (i - 1) * step));
      if (!sum) return std::optional<Slope>();
      sums[i] = *sum;
    }
    return std::optional<Slope>({(sums[1] - sums[0]) / step, (sums[2] - sums[1]) / step, sums[1]});
  }

  absl::Status CheckSlope(const Output& x, const Array& at, const Array& direction, double wanted,
                          double magnitude, const Output& result) {
    constexpr double kStep = 1e-4;
    WEIR_ASSIGN_OR_RETURN(const std::optional<Slope> slope, SlopeAt(x, at, direction, kStep));
    if (!slope) return absl::OkStatus();
    const double size =
        std::max({std::abs(slope->before), std::abs(slope->after), magnitude, 1.0, std::abs(slope->sum)});
    const double bend = std::abs(slope->after - slope->before);
    if (!(bend <= 1e-2 * size)) return absl::OkStatus();  // a kink, or very steep
    // The error of the difference is of the second order: `bend` is of the first. Constants in a gradient are
    // rounded to their dtype.
    const double allowed = std::max(1e-4, epsilon_) * size + bend;
    const double difference = std::abs(slope->mean() - wanted);
    if (difference <= allowed) return absl::OkStatus();
    // Sign at 0 jumps by as much on both sides. The slope of a jump is steeper the smaller the step.
    WEIR_ASSIGN_OR_RETURN(const std::optional<Slope> nearer, SlopeAt(x, at, direction, kStep / 4));
    if (!nearer || std::abs(nearer->mean() - slope->mean()) > 0.5 * difference) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the gradient '", result.name(), "' of '", request_.y.name(),
                                            "' with respect to '", x.name(), "' is ", wanted,
                                            " along a direction in which small steps say ", slope->mean()));
  }

  const Graph& graph_;
  const Expectation& expectation_;
  const GradientRequest& request_;
  const Interpreter interpreter_;
  Interpreter::Feeds feeds_;
  std::optional<Array> weights_;
  double epsilon_ = 0;  // of the coarsest dtype between x and its gradient
};

}  // namespace

absl::Status CheckDerivatives(const GraphCase& graph_case, const Expectation& expectation) {
  for (const GradientRequest& request : graph_case.gradients) {
    for (size_t i = 0; i < request.xs.size(); ++i) {
      if (!request.results[i]) continue;
      WEIR_RETURN_IF_ERROR(
          Derivative(graph_case, expectation, request).Check(request.xs[i], request.results[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace weir::random_graphs
