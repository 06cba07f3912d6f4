// Ops that a GraphDef may have and a graph has not: they become others when the GraphDef is read.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace weir {

// The op that takes the place of one with references (references.h); empty: it has none.
std::string OpInPlaceOf(absl::string_view op);

// Whether its node is expanded: it calls functions of the GraphDef (function_calls.h).
bool IsCallOfFunctions(absl::string_view op);

}  // namespace weir
