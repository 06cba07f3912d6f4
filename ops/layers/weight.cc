#include "ops/layers/weight.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/partitioned_variable.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir::layers {
namespace {

void Regularize(GraphBuilder& g, absl::string_view name, const ModelVariable& weight,
                const Regularizer& regularizer, SourceLocation where) {
  if (!regularizer || !weight.handle) return;
  const auto beside_weight = g.ColocationScope(weight.handle.node);
  const auto scope = g.NameScope(absl::StrCat(name, "/Regularizer"));
  const Output loss = regularizer(g, weight.value);
  if (CheckGiven(g, absl::StrCat("variable '", weight.name, "'"), "what its regularizer gave", loss, where)) {
    g.graph().collections()[std::string(kRegularizationLosses)].push_back(loss.name());
  }
}

}  // namespace

Output AddWeight(GraphBuilder& g, absl::string_view name, DType dtype, const std::vector<int64_t>& dims,
                 const WeightOptions& options, SourceLocation where) {
  if (!g.ok()) return {};
  const absl::StatusOr<Shape> shape = Shape::FromDims(dims);
  if (!shape.ok()) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("layer '", g.name_scope(), "': the shape of '", name,
                                                       "': ", shape.status().message())),
               where);
    return {};
  }
  const VariableOptions variable_options = {.trainable = options.trainable};
  if (!options.partitioner) {
    const ModelVariable weight =
        MakeVariable(g, name, dtype, *shape, options.initializer, variable_options, where);
    Regularize(g, name, weight, options.regularizer, where);
    return weight.value;
  }
  const PartitionedVariable weight = MakePartitionedVariable(g, name, dtype, *shape, options.initializer,
                                                             options.partitioner, variable_options, where);
  for (const ModelVariable& part : weight.parts) Regularize(g, name, part, options.regularizer, where);
  return WholeOf(g, weight, where);
}

Output AddBias(GraphBuilder& g, Output x, int64_t channels, absl::string_view data_format,
               const WeightOptions& options, SourceLocation where) {
  if (!x) return {};
  const Output bias = AddWeight(g, "bias", x.dtype(), {channels}, options, where);
  return BiasAdd(g, x, bias, {.data_format = std::string(data_format)}, where);
}

}  // namespace weir::layers
