// Every op that Weir knows.
#pragma once

#include "absl/status/status.h"
#include "graph/op_registry.h"

namespace weir {

// Registers all families (ops/families.h). AlreadyExists when the registry has one of the ops.
absl::Status RegisterOps(OpRegistry& registry);

// Registers all of them and the runtime's own (graph/runtime_ops.h): what a program begins with that adds ops
// of its own.
absl::Status RegisterStandardOps(OpRegistry& registry);

// A registry of the standard ops, for programs that need no other: built by the first call, never changed,
// never destroyed (graphs point into it). Thread safe.
const OpRegistry& StandardOps();

}  // namespace weir
