// Optimizers: the nodes that change variables so that a loss falls.
//
//   Node* train = Adam(0.001).Minimize(g, loss, GlobalStep(g)).value();   // a target of every training step
//
// Update ops, their constants and the slots stand on their variable's device: with parameter servers only
// gradients travel there. Slots ("dense/kernel/Adam") are variables of their own, saved in checkpoints and
// not trainable. The global step is incremented after all updates, on its own device. Names are TensorFlow's.
//
// A variable whose rows are looked up (ops/embedding.h) gets gradients for these rows alone (IndexedSlices of
// graph/gradients.h), and only they are updated: rows that come twice are added up first, where TensorFlow
// does that.
//
// Which variables are trained is the caller's choice (GradientOptions):
//
//   Adam(0.001).Minimize(g, loss, GlobalStep(g), {.only = NamedBelow("head")});   // the rest stays as it is
//
// An optimizer adds nodes to one builder; it may be dropped afterwards. Not thread safe. Errors are also the
// builder's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/variable.h"

namespace weir {

struct GradientAndVariable {
  Gradient gradient;  // null when the loss does not depend on the variable
  ModelVariable variable;
};

// Which variables get gradients. TensorFlow's var_list.
struct GradientOptions {
  // These, in this order, whether trainable or not; by default the trainable ones.
  std::optional<std::vector<ModelVariable>> variables;
  // If set: of these only those for which it is true.
  std::function<bool(const ModelVariable& variable)> only;
};

// True for the variable `name` and for those below it: "dense" takes "dense/kernel", but not
// "dense_1/kernel".
std::function<bool(const ModelVariable& variable)> NamedBelow(absl::string_view name);

// A number, or a scalar that the graph computes (a learning rate that decays). A number must be finite; as in
// TensorFlow it may be zero or negative.
class Hyperparameter {
 public:
  Hyperparameter(double value) : value_(value) {}
  Hyperparameter(Output value) : value_(value) {}

  // Whether it is finite, or an output that is there; otherwise an InvalidArgument that names `asker` and
  // `name`.
  bool Check(GraphBuilder& g, absl::string_view asker, absl::string_view name, SourceLocation where) const;
  // The value as a scalar of the dtype: a constant in the current scopes, or the graph's output, cast.
  Output In(GraphBuilder& g, DType dtype, absl::string_view name) const;

 private:
  std::variant<double, Output> value_;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The train op: its step computes gradients of the loss, updates the chosen variables and increments the
  // global step. Errors: those of both halves.
  absl::StatusOr<Node*> Minimize(GraphBuilder& g, Output loss, const ModelVariable& global_step = {},
                                 const GradientOptions& options = {},
                                 SourceLocation where = SourceLocation::Current());

  // The two halves of Minimize, for those who change gradients in between (ops/training/clipping.h).
  //
  // Gives one entry for each chosen variable; its gradient is null where the loss does not depend on it.
  // InvalidArgument when no variable is chosen, one is chosen twice or is not in the graph, or the loss is
  // not floating point.
  virtual absl::StatusOr<std::vector<GradientAndVariable>> ComputeGradients(
      GraphBuilder& g, Output loss, const GradientOptions& options = {},
      SourceLocation where = SourceLocation::Current());
  // Variables without a gradient stay as they are. InvalidArgument when none has one, or one does not fit its
  // variable.
  virtual absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g,
                                               const std::vector<GradientAndVariable>& gradients,
                                               const ModelVariable& global_step = {},
                                               SourceLocation where = SourceLocation::Current());

  // What decides whether another optimizer may wrap this one; of a wrapper that of what it wraps.
  //
  // The model reads copies of a worker's own (ops/training/local_copies.h), which ApplyGradients moves.
  virtual bool keeps_local_copies() const { return false; }
  // ApplyGradients asks how old the values are that the step has read, and takes it that its gradients are of
  // this step alone.
  virtual bool measures_staleness() const { return false; }

 protected:
  // `name` is the train op's ("Adam") and begins the names of the update ops
  // ("Adam/update_dense/kernel/...").
  explicit Optimizer(std::string name) : name_(std::move(name)) {}

  // Variables besides the slots, made before the first update.
  virtual void Prepare(GraphBuilder& g, const std::vector<ModelVariable>& variables) {}
  // The op that updates the variable. Called in its colocation scope.
  virtual Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) = 0;
  // The same for some rows, each named once unless takes_repeated_rows(). By default all rows are updated.
  virtual Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
    return Update(g, variable, Densify(g, rows));
  }
  // True where updating a row twice gives what updating it once with the sum gives.
  virtual bool takes_repeated_rows() const { return false; }
  // Adds what runs after all updates; returns the nodes that the step must wait for.
  virtual std::vector<Node*> Finish(GraphBuilder& g, std::vector<Node*> updates) { return updates; }

  // A variable of the variable's shape, named "<variable>/<name>", beside it. Each update of a variable makes
  // its slots in the same order: a second one by this optimizer gets those of the first.
  ModelVariable MakeSlot(GraphBuilder& g, const ModelVariable& variable, absl::string_view name,
                         const Initializer& initializer = initializers::Zeros());
  // Whether the variable was made, for the builder's graph.
  static bool IsIn(const GraphBuilder& g, const ModelVariable& variable);
  // The hyperparameter for an update of the variable: one constant per device and dtype.
  Output On(GraphBuilder& g, const ModelVariable& variable, const Hyperparameter& parameter,
            absl::string_view name);

  const std::string& name() const { return name_; }
  // Of the call of ApplyGradients that is being served.
  SourceLocation where() const { return where_; }

 private:
  using ConstantKey = std::tuple<std::string, DType, std::string>;  // device, dtype, name

  Node* AddUpdate(GraphBuilder& g, const ModelVariable& variable, const Gradient& gradient);
  Node* Count(GraphBuilder& g, const ModelVariable& global_step, const std::vector<Node*>& updates,
              SourceLocation where);

  std::string name_;
  std::map<ConstantKey, Output> constants_;
  std::map<std::pair<const Node*, int>, ModelVariable> slots_;  // by the variable's handle, in their order
  int num_slots_made_ = 0;                                      // of the update that is being added
  SourceLocation where_;
};

}  // namespace weir
