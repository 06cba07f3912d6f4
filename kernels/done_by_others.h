// The error of a step that others have done already, and that cannot be left out. A session knows it from
// other errors of the step by its payload.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

// FailedPrecondition.
absl::Status DoneByOthersError(absl::string_view message);
bool IsDoneByOthers(const absl::Status& status);

}  // namespace weir
