#include "ops/families.h"

#include <utility>

#include "graph/types/status_macros.h"

namespace weir {

absl::Status RegisterAll(OpRegistry& registry, std::vector<OpDef> ops) {
  for (OpDef& op : ops) WEIR_RETURN_IF_ERROR(registry.Register(std::move(op)));
  return absl::OkStatus();
}

}  // namespace weir
