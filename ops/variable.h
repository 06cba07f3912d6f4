// Variables of a model: made, found again, initialised.
//
//   ModelVariable w = MakeVariable(g, "kernel", DType::kFloat32, {784, 10}, initializers::GlorotUniform());
//   Output y = MatMul(g, x, w.value);
//
// A variable is a VarHandleOp "dense/kernel" and around it "dense/kernel/Initializer/...",
// "dense/kernel/Assign" and "dense/kernel/Read/ReadVariableOp", all on the device that the builder's
// DeviceSetter gives the handle: with parameter servers, initial values are computed there. Tasks that make a
// variable of the same name on the same device share it. (The tensor itself is kernels/variable.h's Variable,
// behind the handle.)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "graph/types/tensor.h"
#include "ops/initializers.h"

namespace weir {

// A value; all null after an error in the builder.
struct ModelVariable {
  std::string name;  // "dense/kernel": in checkpoints, and shared between tasks
  DType dtype = DType::kInvalid;
  Shape shape;
  Output handle;
  Output value;                 // read in the step, before updates that depend on it
  Node* initializer = nullptr;  // sets the initial value
  Output initial_value;
  bool trainable = true;
  std::optional<VariableSlice> slice;  // of a part of a PartitionedVariable only
};

struct VariableOptions {
  // False for counters, statistics and optimizer slots: no gradient is applied to them.
  bool trainable = true;
  // A variable of this process, such as a metric's: it is in the collection "local_variables" and not in
  // graph().variables(), so it is not saved, and InitializeLocalVariables sets it.
  bool is_local = false;
  // Which part of a variable in several parts this is. Its shape must be the variable's.
  std::optional<VariableSlice> slice;
};

// Names are below the current name scope and made unique. The variable is added to graph().variables(),
// unless it is local.
ModelVariable MakeVariable(GraphBuilder& g, absl::string_view name, DType dtype, const Shape& shape,
                           const Initializer& initializer, const VariableOptions& options = {},
                           SourceLocation where = SourceLocation::Current());
ModelVariable MakeVariable(GraphBuilder& g, absl::string_view name, Tensor initial_value,
                           const VariableOptions& options = {},
                           SourceLocation where = SourceLocation::Current());
// InvalidArgument when the shape of the initial value is not fully known.
ModelVariable MakeVariable(GraphBuilder& g, absl::string_view name, Output initial_value,
                           const VariableOptions& options = {},
                           SourceLocation where = SourceLocation::Current());

// A variable of `primary`'s dtype and shape beside it, named "<primary>/<name>" and not trainable: an
// optimizer's slot, an average. Of a part it is the same part.
ModelVariable MakeVariableBeside(GraphBuilder& g, const ModelVariable& primary, absl::string_view name,
                                 const Initializer& initializer,
                                 SourceLocation where = SourceLocation::Current());

// Those of graph().variables(), in the order in which they were made.
std::vector<ModelVariable> AllVariables(GraphBuilder& g);
std::vector<ModelVariable> TrainableVariables(GraphBuilder& g);

// The int64 variable "global_step" that counts training steps; made by the first call and put into the
// collection of that name.
ModelVariable GlobalStep(GraphBuilder& g, SourceLocation where = SourceLocation::Current());

// A node that initialises every variable made so far.
Node* InitializeVariables(GraphBuilder& g, SourceLocation where = SourceLocation::Current());

// A node that initialises every local variable made so far. Training sessions add one of their own, of all
// that there are then.
Node* InitializeLocalVariables(GraphBuilder& g, SourceLocation where = SourceLocation::Current());

// Which variables have no value yet.
struct UninitializedReport {
  std::vector<std::string> names;  // of all variables made so far
  Output is_uninitialized;         // bool [names.size()]
};
UninitializedReport ReportUninitialized(GraphBuilder& g, SourceLocation where = SourceLocation::Current());

}  // namespace weir
