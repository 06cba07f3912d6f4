// The errors of calls that a transport raises itself, in the same words for every transport. Thread safety:
// all functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/task_name.h"

namespace weir {

// `status` as the caller shall see it: naming peer, address and method, how long it waited, and what an error
// of the connection means.
absl::Status DescribeCallError(const TaskName& peer, const std::string& address, absl::string_view method,
                               const absl::Status& status, absl::Duration waited);

// What a connection that was not made, with that text of its library, shows about who is there: another
// program, a process that is stopped, TLS on one side only, a certificate that cannot be trusted. Empty when
// it shows nothing.
std::string ExplainConnectionError(absl::string_view text);

// Whether a call failed because nobody listens at the address: its process is gone, or was not there yet. Not
// when a connection that there was broke. (By its text: transports are told no more by their libraries.)
bool IsConnectionRefused(const absl::Status& status);

// ResourceExhausted naming both sizes when a request or a reply is above the limit.
absl::Status CheckRequestSize(const TaskName& peer, absl::string_view method, size_t num_bytes,
                              int64_t max_bytes);
absl::Status CheckReplySize(absl::string_view method, size_t num_bytes, int64_t max_bytes);

}  // namespace weir
