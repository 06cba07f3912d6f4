// Averages of variables or tensors over the steps, the newest counting most:
//
//   average -= (1 - decay) * (average - value)
//
//   ExponentialMovingAverage ema(0.999, {.num_updates = step});
//   Node* train = optimizer.Minimize(g, loss, step).value();
//   {
//     const auto after_update = g.ControlScope({train});
//     train = ema.Apply(g).value();   // the train op: the averages follow the updated variables
//   }
//
// The average of a variable "w" is the variable "w/ExponentialMovingAverage", beside it and not trainable. It
// begins with the variable's value, that of a tensor with zero; zero_debias makes up for the zero (Kingma and
// Ba, 2014). Names are those of TensorFlow (tf.compat.v1.train.ExponentialMovingAverage), so checkpoints
// agree.
//
// One object for one builder; it must be kept as long as averages are asked for. Not thread safe. Errors,
// InvalidArgument, are also the builder's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph_builder.h"
#include "ops/training/optimizer.h"
#include "ops/variable.h"

namespace weir {

// How often the model has been updated: a variable, such as the global step, which is read when the averages
// move, or a scalar as it is.
struct UpdateCount {
  UpdateCount() = default;
  UpdateCount(Output count) : value(count) {}
  UpdateCount(ModelVariable count) : variable(std::move(count)) {}

  Output value;
  ModelVariable variable;
};

struct ExponentialMovingAverageOptions {
  // With it the decay is at most (1 + num_updates) / (10 + num_updates), so that the averages move faster in
  // the beginning.
  UpdateCount num_updates;
  bool zero_debias = false;  // of tensors; averages of variables need none
  std::string name = "ExponentialMovingAverage";
};

class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(Hyperparameter decay, ExponentialMovingAverageOptions options = {})
      : decay_(std::move(decay)), options_(std::move(options)) {}

  // A node that moves the averages, after what is in the builder's control scope. The first call for a
  // variable makes its average. `variables` are the trainable ones by default. They must be floating point.
  absl::StatusOr<Node*> Apply(GraphBuilder& g,
                              const std::optional<std::vector<ModelVariable>>& variables = std::nullopt,
                              SourceLocation where = SourceLocation::Current());
  // The same for tensors, whose shapes must be known.
  absl::StatusOr<Node*> ApplyToTensors(GraphBuilder& g, const std::vector<Output>& tensors,
                                       SourceLocation where = SourceLocation::Current());

  // Null without Apply.
  const ModelVariable* Average(const ModelVariable& variable) const { return AverageOf(variable.name); }
  const ModelVariable* Average(const Output& tensor) const;

  // What the average is called, also before Apply: its name in checkpoints.
  std::string AverageName(const ModelVariable& variable) const;

  // Which value of a checkpoint an evaluation restores into which variable: the averages into their
  // variables, and all others by their own names. `averaged` are by default the trainable variables and those
  // that Apply was called for.
  std::map<std::string, ModelVariable> VariablesToRestore(
      GraphBuilder& g, const std::optional<std::vector<ModelVariable>>& averaged = std::nullopt) const;

 private:
  struct Slots {
    ModelVariable average;
    ModelVariable biased, local_step;  // null without zero_debias
  };

  const ModelVariable* AverageOf(const std::string& name) const;
  Slots MakeOfVariable(GraphBuilder& g, const ModelVariable& variable, SourceLocation where);
  Slots MakeOfTensor(GraphBuilder& g, const Output& tensor, SourceLocation where);
  Output DecayFor(GraphBuilder& g, DType dtype, SourceLocation where);
  Node* Move(GraphBuilder& g, const Slots& slots, Output value, SourceLocation where);
  absl::StatusOr<Node*> Finish(GraphBuilder& g, const std::vector<Node*>& updates, SourceLocation where);

  Hyperparameter decay_;
  ExponentialMovingAverageOptions options_;
  std::map<std::string, Slots> slots_;  // by the name of the variable or the tensor's node
};

}  // namespace weir
