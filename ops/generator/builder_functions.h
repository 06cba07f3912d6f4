// Writes the C++ of one family's builder functions.
#pragma once

#include <string>

#include "graph/op_registry.h"
#include "ops/families.h"

namespace weir {

// ops/<family>_ops.h
std::string BuilderHeader(const OpFamily& family, const OpRegistry& ops);
// ops/<family>_builders.cc
std::string BuilderSource(const OpFamily& family, const OpRegistry& ops);

}  // namespace weir
