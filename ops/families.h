// The families of ops: one Register function each, in the file ops/<family>_ops.cc. register_ops.cc calls
// them all.
//
// In those files one op is one function that returns its OpDef: schema, shapes and gradient stand together.
// In shape functions `s` is the ShapeInference, in gradients `g` is the GradientContext.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"

namespace weir {

absl::Status RegisterArrayOps(OpRegistry& registry);
absl::Status RegisterControlFlowOps(OpRegistry& registry);
absl::Status RegisterIndexingOps(OpRegistry& registry);
absl::Status RegisterJoiningOps(OpRegistry& registry);
absl::Status RegisterMathOps(OpRegistry& registry);
absl::Status RegisterNnOps(OpRegistry& registry);
absl::Status RegisterRandomOps(OpRegistry& registry);
absl::Status RegisterSlicingOps(OpRegistry& registry);
absl::Status RegisterStateOps(OpRegistry& registry);
absl::Status RegisterIoOps(OpRegistry& registry);
absl::Status RegisterSummaryOps(OpRegistry& registry);
absl::Status RegisterCheckOps(OpRegistry& registry);

struct OpFamily {
  absl::string_view name;   // "array": ops/array_ops.cc
  absl::string_view title;  // of its chapter in docs/ops.md
  absl::Status (*register_ops)(OpRegistry& registry);
};
// All of them, in the order of docs/ops.md.
const std::vector<OpFamily>& OpFamilies();

// Registers every one of `ops`; the first error.
absl::Status RegisterAll(OpRegistry& registry, std::vector<OpDef> ops);

}  // namespace weir
