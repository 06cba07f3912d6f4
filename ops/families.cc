#include "ops/families.h"

#include <utility>

#include "graph/types/status_macros.h"
#include "ops/schemas/schema_table.h"

namespace weir {

absl::Status OpFamily::Register(OpRegistry& registry) const {
  for (const OpList list : files) {
    for (OpDef& op : list()) {
      // An op of our own brings its schema.
      const bool is_own = op.name.rfind("Weir", 0) == 0;
      if (!is_own) WEIR_RETURN_IF_ERROR(SchemaTable::TensorFlow().Complete(op));
      WEIR_RETURN_IF_ERROR(registry.Register(std::move(op)));
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
