#include "session/monitored/exit_code.h"

#include "absl/strings/cord.h"

namespace weir {
namespace {
constexpr char kDivergedPayload[] = "weir.diverged";
constexpr char kTerminatedPayload[] = "weir.terminated";
}  // namespace

int ExitCodeFor(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  if (status.GetPayload(kDivergedPayload)) return kExitDiverged;
  if (status.GetPayload(kTerminatedPayload)) return kExitTerminated;
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
      return kExitBadData;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitRetryable;
    default:
      return kExitUserError;
  }
}

absl::Status DivergedError(absl::string_view message) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kDivergedPayload, absl::Cord("1"));
  return status;
}

absl::Status TerminatedError(absl::string_view message) {
  return CausedBySigterm(absl::CancelledError(message));
}

absl::Status CausedBySigterm(absl::Status error) {
  error.SetPayload(kTerminatedPayload, absl::Cord("1"));
  return error;
}

bool IsRecoverable(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kAborted;
}

}  // namespace weir
