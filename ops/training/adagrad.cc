#include "ops/training/adagrad.h"

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {

void Adagrad::Prepare(GraphBuilder& g, const std::vector<ModelVariable>&) {
  const double initial = options_.initial_accumulator_value;
  if (!CheckFinite(g, name(), {{"initial_accumulator_value", initial}}, where()) || initial > 0) return;
  g.SetError(absl::InvalidArgumentError(
                 absl::StrCat(name(), ": initial_accumulator_value must be positive, is ", initial)),
             where());
}

ModelVariable Adagrad::MakeAccumulator(GraphBuilder& g, const ModelVariable& variable) {
  return MakeSlot(g, variable, name(), initializers::Constant(options_.initial_accumulator_value));
}

Node* Adagrad::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  const ModelVariable accumulator = MakeAccumulator(g, variable);
  return ResourceApplyAdagrad(g, variable.handle, accumulator.handle,
                              On(g, variable, learning_rate_, "learning_rate"), gradient);
}

Node* Adagrad::UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
  const ModelVariable accumulator = MakeAccumulator(g, variable);
  return ResourceSparseApplyAdagrad(g, variable.handle, accumulator.handle,
                                    On(g, variable, learning_rate_, "learning_rate"), rows.values,
                                    rows.indices);
}

}  // namespace weir
