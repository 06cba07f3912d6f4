// Looking rows of a variable up by number.
//
//   const Shape shape({100'000, 64});
//   ModelVariable table = MakeVariable(g, "embedding", DType::kFloat32, shape, initializers::Uniform(-1, 1));
//   Output x = EmbeddingLookup(g, table, ids);   // ids: [batch, words], x: [batch, words, 64]
//
// The rows are read on the variable's device, and only they travel. Its gradient is IndexedSlices: a step of
// an optimizer touches the rows that were looked up, and needs no memory for the others.
#pragma once

#include "graph/graph_builder.h"
#include "ops/variable.h"

namespace weir {

// The rows of `table` that `ids` (int32 or int64, any shape) name, of shape ids.shape + table.shape[1:]. A
// step with an id outside of the table fails.
Output EmbeddingLookup(GraphBuilder& g, const ModelVariable& table, Output ids,
                       const NodeOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir
