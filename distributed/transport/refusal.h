// Calls that a listener refuses before their handler sees them, or that the handler refuses for who calls:
// told to whoever counts them. Called by any thread; must not block.
#pragma once

#include <functional>

#include "absl/strings/string_view.h"

namespace weir {

enum class Refusal {
  kToken,        // another token, or none
  kCertificate,  // one of another task, or a revoked one
  kProtocol,     // bytes that are no call, or a flood of calls that are reset
  kCluster,      // another cluster spec
  kCount
};

// `caller`: its address or task. `why`: one line, which may have bytes of the caller.
using OnRefusal = std::function<void(Refusal kind, absl::string_view caller, absl::string_view why)>;

}  // namespace weir
