#include "session/monitored/exit_code.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "kernels/lost_device.h"

namespace weir {
namespace {

// Status::ToString shows payloads, so they are for people too: "[superseded='worker:0 0.b']",
// "[exit code='143']".
constexpr char kSupersededPayload[] = "superseded";
constexpr char kExitCodePayload[] = "exit code";

absl::Status WithExitCode(absl::Status error, int exit_code) {
  error.SetPayload(kExitCodePayload, absl::Cord(absl::StrCat(exit_code)));
  return error;
}

}  // namespace

int ExitCodeFor(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  if (IsSuperseded(status)) return kExitSuperseded;
  if (const absl::optional<absl::Cord> payload = status.GetPayload(kExitCodePayload)) {
    // From a peer it may be any text.
    for (const int exit_code : {kExitDone, kExitDiverged, kExitTerminated, kExitRetryable}) {
      if (*payload == absl::StrCat(exit_code)) return exit_code;
    }
  }
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
  return WithExitCode(absl::FailedPreconditionError(message), kExitDiverged);
}

absl::Status TrainingIsOverError(absl::string_view message) {
  return WithExitCode(absl::OutOfRangeError(message), kExitDone);
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

absl::Status CausedBySigterm(absl::Status error) { return WithExitCode(std::move(error), kExitTerminated); }

bool IsRecoverable(const absl::Status& status) {
  // It is this process's own, and stays lost: a new session would have the same error.
  if (IsOfLostDevice(status)) return false;
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kAborted;
}

}  // namespace weir
