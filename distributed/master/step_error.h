// Errors as TensorFlow's clients expect them: its codes, which are those of Abseil, and the name of the node
// in the form that its Python client looks for, "{{node dense/mm}}".
//
// Functions without state, safe from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/types/device_name.h"

namespace weir {

// Of a step that has failed. `master`: the task that the client asked.
absl::Status StepErrorForClient(const absl::Status& error, const DeviceName& master);

// The node of a client's graph that an error of a step is about; empty when it names none. Nodes that the
// import has added stand for those that they were added for.
std::string NodeOfError(const absl::Status& error);

// Of a handle that no session has.
absl::Status UnknownSession(absl::string_view handle, bool may_have_restarted);

}  // namespace weir
