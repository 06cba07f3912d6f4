// Runs a step of a graph as its definition reads: the oracle that Weir's executors are compared with.
//
// It shares no code with session/ and kernels/cpu/: it asks each node for its inputs, recursively, computes
// it with the references of the conformance suite, and copies every value. Conditionals and loops (Switch,
// Merge, Enter, Exit, NextIteration) and variables are interpreted here. A loop's nodes have one value per
// iteration. A node runs when something needs it, so effects happen in the order that control edges ask for,
// and a graph whose result depends on any other order has no defined result.
//
// Sensitivity: with `noise` every floating result is moved by about as much as a good kernel may be off. How
// far a result moves then says how exactly it is defined at all (expectation.h).
//
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "kernels/reference/array.h"
#include "tests/random_graphs/random.h"

namespace weir::random_graphs {

using reference::Array;

// A node's outputs in one iteration of the loops around it. An output without a value is dead.
struct NodeValues {
  std::vector<std::optional<Array>> outputs;
  bool is_dead = false;
  // Depends on a number that is not finite, that its dtype cannot hold, or (with noise) on an integer that
  // came out differently: nothing can be said of it.
  bool is_undefined = false;
};

// By node id and the numbers of the iterations around it, outermost first.
using Trace = std::map<std::pair<int, std::vector<int64_t>>, NodeValues>;

struct VariableValue {
  Array value;
  bool is_undefined = false;
};
using Variables = std::map<std::string, VariableValue>;  // by shared_name

struct InterpreterOptions {
  // Moves floating results at random.
  Random* noise = nullptr;
  // An earlier trace of the same step: integers, bools and shapes that differ from it become undefined, and
  // the computation goes on with the earlier ones.
  const Trace* base = nullptr;
  // False: floating results keep all digits of a double, for numeric derivatives.
  bool rounds = true;
};

class Interpreter {
 public:
  using Feeds = absl::flat_hash_map<Output, Array>;

  explicit Interpreter(const Graph& graph) : graph_(graph) {}

  // Runs what the fetches and targets need; their values are in the trace. `variables` change.
  // InvalidArgument for a placeholder that is not fed, a graph with a cycle, a loop that does not end;
  // NotFound for an op without a reference.
  absl::StatusOr<Trace> Step(const Feeds& feeds, absl::Span<const Output> fetches,
                             absl::Span<Node* const> targets, Variables* variables,
                             const InterpreterOptions& options = {}) const;

  // An output outside of loops; null when it is dead or was not needed.
  static const Array* Find(const Trace& trace, const Output& output);

 private:
  const Graph& graph_;
};

// The outputs of one node without control flow or state, not rounded. NotFound for an op without a reference.
absl::StatusOr<std::vector<Array>> EvaluateReference(const Node& node, std::vector<Array> inputs);
bool HasReference(absl::string_view op);

// What can be represented in the dtype: rounded, and 0 with *is_undefined set for what does not fit.
Array Represented(const Array& value, DType dtype, bool rounds, bool* is_undefined);

// The distance from 1 to the next number of a floating dtype.
double Epsilon(DType dtype);

}  // namespace weir::random_graphs
