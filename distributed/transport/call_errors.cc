#include "distributed/transport/call_errors.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace weir {

absl::Status DescribeCallError(const TaskName& peer, const std::string& address, absl::string_view method,
                               const absl::Status& status, absl::Duration waited) {
  const std::string where = absl::StrCat(peer.ToString(), " at ", address, ": ", method);
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return absl::DeadlineExceededError(
          absl::StrCat(where, " did not answer within ",
                       absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1)))));
    case absl::StatusCode::kCancelled:
      return absl::CancelledError(absl::StrCat(where, " was cancelled"));
    default:
      return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
  }
}

bool IsConnectionRefused(const absl::Status& status) {
  return absl::IsUnavailable(status) &&
         absl::StrContains(absl::AsciiStrToLower(status.message()), "connection refused");
}

absl::Status CheckRequestSize(const TaskName& peer, absl::string_view method, size_t num_bytes,
                              int64_t max_bytes) {
  if (num_bytes <= static_cast<uint64_t>(max_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(peer.ToString(), ": ", method, ": a message of ",
                                                   num_bytes, " bytes is above the limit of ", max_bytes));
}

absl::Status CheckReplySize(absl::string_view method, size_t num_bytes, int64_t max_bytes) {
  if (num_bytes <= static_cast<uint64_t>(max_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(method, ": a reply of ", num_bytes, " bytes is above the limit of ", max_bytes));
}

}  // namespace weir
