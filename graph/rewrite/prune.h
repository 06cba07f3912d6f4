// Cuts a graph down to what one signature of feeds, fetches and targets needs.
//
// Thread safety: concurrent while nothing changes the graph. The new graph borrows only the registry of ops.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph.h"

namespace weir {

// An attr of the IdentityN that stands for a call of a function (graph/interchange/function_expansion.h). As
// in TensorFlow, its outputs are independent of one another: of such a node only the inputs are needed whose
// outputs are, and its control inputs; an empty constant takes the place of each other. Who runs it, or runs
// after it, needs all.
inline constexpr char kResultsOfCallAttr[] = "_results_of_call";

// A new graph with the nodes that the fetches and targets depend on. Feed i becomes an _Arg node of index i
// that stands in for the fed output (its producer runs only if something else needs it); fetch i ends in a
// _Retval of index i. A control edge from a fed Placeholder is dropped, since nothing waits for a feed; one
// from any other fed node still needs that node (both as in TensorFlow). Source locations and
// requested devices are kept, and shapes too, but for those of nodes that depend on a feed that is no
// Placeholder, or on a variable that has forgotten its shape: what was known when they were inferred may hold
// no more, so they are inferred anew. An _Arg
// takes the device and the shape of what it replaces, so what is fed must fit that shape. A _Retval is
// colocated with its producer.
//
// InvalidArgument when an output is fed twice, or is both fed and fetched ("p:0 is both fed and fetched").
// Precondition: all are of `graph`.
absl::StatusOr<std::unique_ptr<Graph>> PruneToSignature(const Graph& graph, absl::Span<const Output> feeds,
                                                        absl::Span<const Output> fetches,
                                                        absl::Span<Node* const> targets);

// How many variables (VarHandleOp) declare no shape any more, but did when the nodes that depend on them were
// inferred: values may have another shape since then (graph/interchange/references.h).
int64_t NumForgottenShapes(const Graph& graph);

}  // namespace weir
