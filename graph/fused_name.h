// What nodes are called that stand in place of several (fused_ops.h).
#pragma once

#include "absl/strings/string_view.h"

namespace weir {

// A fused node has the name of the last of its nodes, and this behind it.
inline constexpr char kFusedSuffix[] = "/fused";

// The name that a user knows: of a fused node that of the last of its nodes, of any other its own.
absl::string_view NameBeforeFusion(absl::string_view op, absl::string_view name);

}  // namespace weir
