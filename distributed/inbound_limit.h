// The limit of --peer_limits that is of all peers together: "inbound=N", for what tensors that they push may
// take on their way to this task (peers/inbound_budget.h). Those of each peer: peer_limits.h.
//
// Pure function.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weir {

// Of a text that ParsePeerLimits has taken; 0 when it does not say it.
int64_t InboundLimitIn(absl::string_view text);

}  // namespace weir
