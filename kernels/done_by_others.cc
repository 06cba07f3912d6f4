#include "kernels/done_by_others.h"

#include "absl/strings/cord.h"

namespace weir {

static constexpr char kPayload[] = "weir/done_by_others";

absl::Status DoneByOthersError(absl::string_view message) {
  absl::Status error = absl::FailedPreconditionError(message);
  error.SetPayload(kPayload, absl::Cord());
  return error;
}

bool IsDoneByOthers(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

}  // namespace weir
