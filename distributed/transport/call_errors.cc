#include "distributed/transport/call_errors.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr char kSilent[] =
    "the task accepts connections but does not answer: it may be stopped (SIGSTOP, a debugger) or too busy, "
    "or another program listens there";

}  // namespace

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
    default: {
      const std::string meaning = absl::IsUnavailable(status) ? ExplainConnectionError(status.message()) : "";
      return absl::Status(status.code(),
                          absl::StrCat(where, ": ", meaning.empty() ? "" : meaning + ": ", status.message()));
    }
  }
}

std::string ExplainConnectionError(absl::string_view text) {
  // As gRPC 1.51 and OpenSSL 3 say it; what they say otherwise is shown without an explanation.
  constexpr struct {
    const char* words;
    const char* meaning;
  } kMeanings[] = {
      {"certificate verify failed", "its certificate has expired, or another CA than --tls_ca has signed it"},
      {"is not in peer certificate", "its certificate is for another host or task"},
      {"wrong version number",
       "no TLS is spoken there: one side has TLS and the other has not, or it is no task"},
      {"Failed parsing HTTP/2", "another program answers there, which is no task of Weir"},
      {"http1.x server", "another program answers there, which is no task of Weir"},
      // The system accepts connections for a process that does not run. (The former is without TLS.)
      {"timed out before receiving SETTINGS", kSilent},
      {"Handshake read failed", kSilent},
      {"alert", "it refuses the certificate of this task, which may have expired, or be of another CA"},
  };
  for (const auto& [words, meaning] : kMeanings) {
    if (absl::StrContains(text, words)) return meaning;
  }
  const bool was_closed = absl::StrContains(text, "Socket closed") ||
                          absl::StrContains(text, "onnection reset by peer") ||
                          absl::StrContains(text, "before receiving SETTINGS");
  return was_closed && absl::StrContains(text, "failed to connect")
             ? "somebody listens there, but ends the connection: one side has TLS and the other has not, a "
               "certificate was refused, or it is no task of Weir"
             : "";
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
