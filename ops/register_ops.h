// Every op that Weir knows.
#pragma once

#include "absl/status/status.h"
#include "graph/op_registry.h"

namespace weir {

// Registers all families (ops/families.h). AlreadyExists when the registry has one of the ops.
absl::Status RegisterOps(OpRegistry& registry);

// A registry of all of them, and of the runtime's own (graph/runtime_ops.h), for user programs: built by the
// first call, never changed, never destroyed (graphs point into it). Thread safe.
const OpRegistry& StandardOps();

}  // namespace weir
