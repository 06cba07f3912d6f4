// One function of a library, made the body of one call (function_library.h has the errors).
//
// A function without state; safe from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "graph/interchange/function_library.h"

namespace weir {

// `attrs` are those that the call gives. `library` has the signatures of functions that `function` calls.
absl::StatusOr<FunctionBody> InstantiateFunction(const tensorflow::FunctionDef& function,
                                                 const AttrProtos& attrs, const FunctionLibrary& library,
                                                 const OpRegistry& ops);

}  // namespace weir
