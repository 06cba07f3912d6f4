// Work in a child process: a graph that crashes Weir, or never ends, is a finding and not the end of the
// hunt.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace weir::random_graphs {

// What `work` returns, in a child process. Aborted, saying how, when the child crashed; DeadlineExceeded when
// it was still busy at the limit (rounded up to seconds). Precondition: the calling process has one thread.
absl::StatusOr<std::string> RunInChild(absl::Duration limit, const std::function<std::string()>& work);

}  // namespace weir::random_graphs
