// What the fetches of a case must be, and how exactly: the interpreter's results with an allowance for each
// element.
//
// The criterion: the interpreter runs the case once as it is and several times with noise, in which every
// floating result of a node that is not exact (and every floating operand of one that adds up or
// approximates) is moved by up to 2 units in the last place of its dtype, at random. An element may differ
// from the first run by 8 times the largest difference among the noisy ones, plus 32 epsilons of its dtype
// relative to its size (at least 1/8). So an element that cancellation or a steep function makes inexact is
// allowed as much as its own conditioning explains, and no more; integers and bools must be equal. An element
// is not judged where some noisy run takes another decision (a comparison, a rounding) or is not finite.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/random_graphs/graph_case.h"
#include "tests/random_graphs/interpreter.h"

namespace weir::random_graphs {

struct Expected {
  DType dtype = DType::kInvalid;
  bool is_defined = false;
  Array value;
  std::vector<double> allowance;  // per element; 0: must be equal
};

struct Expectation {
  std::vector<std::vector<Expected>> steps;  // of each step the fetches
  std::vector<Trace> traces;                 // without noise, of each step
  Variables initial;                         // after the initializer
};

// InvalidArgument or NotFound when the case cannot be interpreted.
absl::StatusOr<Expectation> Expect(const GraphCase& graph_case, int num_noisy_runs);

// Whether each element of `found` is within factor * allowance + slack[i] of what is expected (slack may be
// empty). Internal, naming the fetch, the element and both values, when not.
absl::Status Compare(const Output& fetch, const Tensor& found, const Expected& expected,
                     const std::vector<double>& slack = {});

// Whether the gradients that the case fetches are the derivatives: the interpreter moves each x along a
// random direction, in double precision. Kinks and what no gradient flows through are left out.
absl::Status CheckDerivatives(const GraphCase& graph_case, const Expectation& expectation);

Interpreter::Feeds FeedArrays(const GraphCase& graph_case);

}  // namespace weir::random_graphs
