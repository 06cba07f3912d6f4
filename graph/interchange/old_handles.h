// Ops of TensorFlow's first versions whose handles are references to strings: queues, tables, readers,
// stacks.
//
// Their successors ("FIFOQueue" is now "FIFOQueueV2") have the same attrs and inputs, and handles that are
// resources. So a node of an old op is imported as one of its successor, and what takes its handle as well.
// A stack has one input more, for how much it holds: any number.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace weir {

// Empty for any other op.
std::string SuccessorOfOldHandle(absl::string_view op);

// Whether the op makes such a handle and has no successor.
bool MakesStringHandle(absl::string_view op);

}  // namespace weir
