#include "graph/fused_name.h"

#include "absl/strings/match.h"

namespace weir {

absl::string_view NameBeforeFusion(absl::string_view op, absl::string_view name) {
  if (!absl::StartsWith(op, "_Fused")) return name;
  const size_t at = name.rfind(kFusedSuffix);
  return at == absl::string_view::npos ? name : name.substr(0, at);
}

}  // namespace weir
