#include "ops/partitioned_variable.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

absl::StatusOr<Cut> CutBy(const Partitioner& partitioner, const Shape& shape, DType dtype) {
  if (!partitioner) return absl::InvalidArgumentError("the partitioner is null");
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> parts, partitioner(shape, dtype));
  return CutShape(shape, parts);
}

}  // namespace

PartitionedVariable MakePartitionedVariable(GraphBuilder& g, absl::string_view name, DType dtype,
                                            const Shape& shape, const Initializer& initializer,
                                            const Partitioner& partitioner, const VariableOptions& options,
                                            SourceLocation where) {
  if (!g.ok()) return {};
  const absl::StatusOr<Cut> cut = CutBy(partitioner, shape, dtype);
  if (!cut.ok()) {
    g.SetError(absl::Status(cut.status().code(),
                            absl::StrCat("partitioned variable '", name, "': ", cut.status().message())),
               where);
    return {};
  }
  const auto scope = g.NameScope(name);
  PartitionedVariable variable = {g.name_scope(), dtype, shape, cut->axis, {}};
  VariableSlice slice = {variable.name, shape, std::vector<int64_t>(shape.rank(), 0), Shape()};
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  for (size_t i = 0; i < cut->sizes.size(); ++i) {
    dims[cut->axis] = cut->sizes[i];
    slice.shape = Shape(absl::MakeConstSpan(dims));
    VariableOptions part_options = options;
    part_options.slice = slice;
    variable.parts.push_back(
        MakeVariable(g, absl::StrCat("part_", i), dtype, slice.shape, initializer, part_options, where));
    slice.offset[cut->axis] += cut->sizes[i];
  }
  if (!g.ok()) return {};
  return variable;
}

Output WholeOf(GraphBuilder& g, const PartitionedVariable& variable, SourceLocation where) {
  if (!g.ok()) return {};
  if (variable.parts.empty()) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat("partitioned variable '", variable.name, "' has no parts")),
        where);
    return {};
  }
  if (variable.parts.size() == 1) return Identity(g, variable.parts[0].value, {}, where);
  std::vector<Output> values;
  for (const ModelVariable& part : variable.parts) values.push_back(part.value);
  const auto root = g.NameScope("");  // the variable's name is whole
  const auto scope = g.NameScope(absl::StrCat(variable.name, "/ConcatPartitions"));
  return ConcatV2(g, values, Const(g, variable.axis, {}, where), {.name = "concat"}, where);
}

}  // namespace weir
