// Writes the list of ops: every op with its C++ function, inputs, outputs and attrs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/op_registry.h"
#include "ops/families.h"

namespace weir {

// The chapter of one family.
std::string OpDocsChapter(const OpFamily& family, const OpRegistry& ops);
// What stands before the chapters.
std::string OpDocsIntroduction();

}  // namespace weir
