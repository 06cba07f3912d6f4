#include "session/monitored/exit_code.h"

#include "absl/strings/cord.h"

namespace weir {
namespace {
constexpr char kDivergedPayload[] = "weir.diverged";
constexpr char kSupersededPayload[] = "weir.superseded";
constexpr char kTerminatedPayload[] = "weir.terminated";
}  // namespace

int ExitCodeFor(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  if (status.GetPayload(kDivergedPayload)) return kExitDiverged;
  if (IsSuperseded(status)) return kExitSuperseded;
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

absl::Status SupersededError(absl::string_view message, absl::string_view life) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kSupersededPayload, absl::Cord(life));
  return status;
}

bool IsSuperseded(const absl::Status& status) { return status.GetPayload(kSupersededPayload).has_value(); }

std::string SupersededLife(const absl::Status& status) {
  const auto life = status.GetPayload(kSupersededPayload);
  return life ? std::string(*life) : "";
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
