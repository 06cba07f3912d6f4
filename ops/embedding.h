// Looking rows of a variable up by number.
//
//   const Shape shape({100'000, 64});
//   ModelVariable table = MakeVariable(g, "embedding", DType::kFloat32, shape, initializers::Uniform(-1, 1));
//   Output x = EmbeddingLookup(g, table, ids);   // ids: [batch, words], x: [batch, words, 64]
//
// The rows are read on the variable's device, and only they travel. Its gradient is IndexedSlices: a step of
// an optimizer touches the rows that were looked up, and needs no memory for the others.
//
// A table may be spread over several variables, such as the parts of a PartitionedVariable. Errors stick in
// the builder; a step with an id outside of the table fails.
#pragma once

#include <vector>

#include "graph/graph_builder.h"
#include "ops/variable.h"

namespace weir {

// The rows of `table` that `ids` (int32 or int64, any shape) name, of shape ids.shape + table.shape[1:].
Output EmbeddingLookup(GraphBuilder& g, const ModelVariable& table, Output ids,
                       const NodeOptions& options = {}, SourceLocation where = SourceLocation::Current());

// In which of n parts a row is, and where there.
enum class PartitionStrategy {
  kMod,  // row i is row i / n of part i mod n
  kDiv,  // the parts lie one after another, as in a PartitionedVariable; the first ones may have a row more
};

struct EmbeddingLookupOptions {
  PartitionStrategy strategy = PartitionStrategy::kMod;
  absl::string_view name = "embedding_lookup";
};

// The same for a table in parts. InvalidArgument unless they agree in all but their numbers of rows, and, for
// kDiv, those are as even as they can be.
Output EmbeddingLookup(GraphBuilder& g, const std::vector<ModelVariable>& parts, Output ids,
                       const EmbeddingLookupOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

// Ids of examples that have several each: the parts of a sparse tensor that a look-up needs.
struct SparseIds {
  Output indices;  // int64 [n, rank]: column 0 is the example, in ascending order
  Output values;   // int32 or int64 [n]: the ids
};

// How the rows of one example become one, given the weights w of its ids.
enum class Combiner {
  kMean,   // sum(w * row) / sum(w)
  kSum,    // sum(w * row)
  kSqrtN,  // sum(w * row) / sqrt(sum(w^2))
};

struct EmbeddingLookupSparseOptions {
  Output weights;  // [n], beside the ids; null: all are 1
  Combiner combiner = Combiner::kMean;
  PartitionStrategy strategy = PartitionStrategy::kMod;
  absl::string_view name = "embedding_lookup_sparse";
};

// One row for each example up to the last that has ids, of shape [examples] + table.shape[1:]; zeros for one
// that has none, and where the divisor is 0. Each row is looked up once, however often it is named.
Output EmbeddingLookupSparse(GraphBuilder& g, const std::vector<ModelVariable>& parts, const SparseIds& ids,
                             const EmbeddingLookupSparseOptions& options = {},
                             SourceLocation where = SourceLocation::Current());

}  // namespace weir
