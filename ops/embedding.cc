#include "ops/embedding.h"

#include "ops/standard_ops.h"

namespace weir {

Output EmbeddingLookup(GraphBuilder& g, const ModelVariable& table, Output ids, const NodeOptions& options,
                       SourceLocation where) {
  if (!g.ok()) return {};
  const auto scope = g.NameScope(options.name.empty() ? "embedding_lookup" : options.name);
  const auto beside_table = g.ColocationScope(table.handle.node);
  return ResourceGather(g, table.handle, ids, table.dtype, {}, where);
}

}  // namespace weir
