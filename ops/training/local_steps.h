// What a worker keeps between its steps, and does only in some of them: a count of its own, sums of
// gradients.
//
// All of it is in local variables beside the worker's nodes, which begin anew in each session and are neither
// saved nor seen by others. Errors stick in the builder.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph_builder.h"
#include "ops/training/optimizer.h"
#include "ops/variable.h"

namespace weir {

// A local variable of the worker, wherever a device setter puts variables.
ModelVariable MakeLocalVariable(GraphBuilder& g, absl::string_view name, const Output& initial_value,
                                SourceLocation where);

// A local variable of the worker, "<like>/<name>", that begins with zeros in each session.
ModelVariable MakeLocalZeros(GraphBuilder& g, const ModelVariable& like, absl::string_view name,
                             SourceLocation where);

// The worker's own count of its steps, an int64 local variable that begins at 0 in each session.
ModelVariable MakeLocalStep(GraphBuilder& g, SourceLocation where);

// Runs the nodes that `body` adds, and gives back, only in steps in which `is_due`, a scalar bool, is true.
// Gives a node that ends after them in every step.
Node* When(GraphBuilder& g, Output is_due, const std::function<std::vector<Node*>()>& body,
           SourceLocation where);

// Whether step modulo period is remainder.
Output IsDue(GraphBuilder& g, Output step, int64_t period, int64_t remainder, SourceLocation where);

// The train op: counts the step after `nodes`.
absl::StatusOr<Node*> EndLocalStep(GraphBuilder& g, const ModelVariable& step,
                                   const std::vector<Node*>& nodes, SourceLocation where);

// The sums of a worker's gradients over some steps, in "<variable>/<name>".
class GradientSums {
 public:
  // InvalidArgument, which begins with `asker`, for a gradient of some rows.
  static absl::StatusOr<GradientSums> Make(GraphBuilder& g, absl::string_view asker,
                                           const std::vector<GradientAndVariable>& gradients,
                                           absl::string_view name, SourceLocation where);

  // Ends when this step's gradients have been added.
  Node* added() const { return added_; }
  // The sums after that, times a factor, in the places of the gradients.
  std::vector<GradientAndVariable> Read(GraphBuilder& g, double factor, SourceLocation where) const;
  // Sets them to zero after a node.
  std::vector<Node*> Clear(GraphBuilder& g, Node* after, SourceLocation where) const;

 private:
  explicit GradientSums(std::vector<GradientAndVariable> gradients) : gradients_(std::move(gradients)) {}

  std::vector<GradientAndVariable> gradients_;
  std::vector<ModelVariable> sums_;  // none where the gradient is null
  Node* added_ = nullptr;
};

}  // namespace weir
