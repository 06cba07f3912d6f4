#include "ops/embedding.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

Output Gather(GraphBuilder& g, const ModelVariable& part, Output ids, SourceLocation where) {
  const auto beside_part = g.ColocationScope(part.handle.node);
  return ResourceGather(g, part.handle, ids, part.dtype, {}, where);
}

bool HasRowsLike(const ModelVariable& part, const ModelVariable& first) {
  return part.handle && part.dtype == first.dtype && part.shape.rank() == first.shape.rank() &&
         part.shape.rank() >= 1 && part.shape.dims().subspan(1) == first.shape.dims().subspan(1);
}

// The number of rows of all parts.
absl::StatusOr<int64_t> CheckParts(const std::vector<ModelVariable>& parts, PartitionStrategy strategy) {
  if (parts.empty()) return absl::InvalidArgumentError("there is no table");
  int64_t rows = 0;
  for (const ModelVariable& part : parts) {
    if (!HasRowsLike(part, parts[0])) {
      return absl::InvalidArgumentError(absl::StrCat("all parts must have rows of one type: '", parts[0].name,
                                                     "' is ", TypeString(parts[0].dtype, parts[0].shape),
                                                     ", '", part.name, "' is ",
                                                     TypeString(part.dtype, part.shape)));
    }
    if (part.shape.dim(0) > std::numeric_limits<int64_t>::max() - rows) {
      return absl::InvalidArgumentError("the parts have too many rows");
    }
    rows += part.shape.dim(0);
  }
  const auto count = static_cast<int64_t>(parts.size());
  for (int64_t i = 0; i < count && strategy == PartitionStrategy::kDiv; ++i) {
    const int64_t wanted = rows / count + (i < rows % count ? 1 : 0);
    if (parts[i].shape.dim(0) == wanted && rows >= count) continue;
    return absl::InvalidArgumentError(absl::StrCat("of ", rows, " rows, part ", i, " of ", count,
                                                   " must have ", wanted, " (kDiv): '", parts[i].name,
                                                   "' has ", parts[i].shape.dim(0)));
  }
  return rows;
}

// The number of parts, or the like, in the dtype of ids.
Output IdOf(GraphBuilder& g, const Output& ids, int64_t number, SourceLocation where) {
  return ConstOf(g, ids.dtype(), static_cast<double>(number), {}, where);
}

// For each of `ids` the part that it is in (int32), and its row there.
struct Places {
  Output part, row;
};

Places PlacesOf(GraphBuilder& g, Output ids, int64_t rows, int64_t count, PartitionStrategy strategy,
                SourceLocation where) {
  if (!ids) return {};
  const auto number = [&](int64_t value) { return IdOf(g, ids, value, where); };
  const auto as_part = [&](Output part) { return Cast(g, part, DType::kInt32, {}, where); };
  if (strategy == PartitionStrategy::kMod) {
    return {as_part(FloorMod(g, ids, number(count), {}, where)), FloorDiv(g, ids, number(count), {}, where)};
  }
  // The first `longer` parts have one row more than the others.
  const int64_t length = rows / count, longer = rows % count;
  const Output rest = Sub(g, ids, number(longer), {}, where);
  const Output part = Maximum(g, FloorDiv(g, ids, number(length + 1), {}, where),
                              FloorDiv(g, rest, number(length), {}, where), {}, where);
  const Output is_longer = Less(g, part, number(longer), {}, where);
  const Output row = SelectV2(g, is_longer, FloorMod(g, ids, number(length + 1), {}, where),
                              FloorMod(g, rest, number(length), {}, where), {}, where);
  return {as_part(part), row};
}

// The shape ids.shape + row.shape.
Output ShapeOfRows(GraphBuilder& g, Output ids, const Shape& table, SourceLocation where) {
  const Tensor row = Tensor::FromSpan<int64_t>(Shape({table.rank() - 1}), table.dims().subspan(1));
  return ConcatV2(g, {ShapeOf(g, ids, {.out_type = DType::kInt64}, where), Const(g, row, {}, where)},
                  Const(g, 0, {}, where), {}, where);
}

// The rows of parts in the current name scope. Precondition: CheckParts.
Output LookUp(GraphBuilder& g, const std::vector<ModelVariable>& parts, Output ids, int64_t rows,
              PartitionStrategy strategy, SourceLocation where) {
  if (parts.size() == 1) return Gather(g, parts[0], ids, where);
  const auto count = static_cast<int64_t>(parts.size());
  const Output flat = Reshape(g, ids, ConstIntegers(g, {-1}, {}, where), {}, where);
  const Output positions =
      Range(g, Const(g, 0, {}, where), Size(g, flat, {}, where), Const(g, 1, {}, where), {}, where);
  const Places places = PlacesOf(g, flat, rows, count, strategy, where);
  const std::vector<Output> row_ids = DynamicPartition(g, places.row, places.part, count, {}, where);
  const std::vector<Output> row_positions = DynamicPartition(g, positions, places.part, count, {}, where);
  std::vector<Output> found;
  for (int64_t i = 0; i < count; ++i) found.push_back(Gather(g, parts[i], row_ids[i], where));
  const Output stitched = ParallelDynamicStitch(g, row_positions, found, {}, where);
  return Reshape(g, stitched, ShapeOfRows(g, ids, parts[0].shape, where), {}, where);
}

// Column 0 of the indices.
Output Examples(GraphBuilder& g, Output indices, SourceLocation where) {
  return StridedSlice(g, indices, ConstIntegers(g, {0, 0}, {}, where), ConstIntegers(g, {0, 1}, {}, where),
                      ConstIntegers(g, {1, 1}, {}, where),
                      {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2}, where);
}

// One row for each example, of the rows of unique ids and which of them each id is.
Output Combine(GraphBuilder& g, Output rows, Output which, Output examples, Combiner combiner,
               SourceLocation where) {
  switch (combiner) {
    case Combiner::kSum:
      return SparseSegmentSum(g, rows, which, examples, {}, where);
    case Combiner::kSqrtN:
      return SparseSegmentSqrtN(g, rows, which, examples, {}, where);
    default:
      return SparseSegmentMean(g, rows, which, examples, {}, where);
  }
}

// The weights as a tensor that broadcasts against rows of this rank.
Output AsColumn(GraphBuilder& g, Output weights, int rank, SourceLocation where) {
  std::vector<int32_t> dims(rank, 1);
  dims[0] = -1;
  return Reshape(g, weights, ConstIntegers(g, dims, {}, where), {}, where);
}

Output CombineWeighted(GraphBuilder& g, Output rows, Output which, Output examples, Output weights, int rank,
                       Combiner combiner, SourceLocation where) {
  const DType dtype = rows ? rows.dtype() : DType::kInvalid;
  const bool is_narrow = dtype == DType::kHalf || dtype == DType::kBfloat16;
  const DType wide = is_narrow ? DType::kFloat32 : dtype;
  const auto cast = [&](Output x, DType to) { return x && x.dtype() != to ? Cast(g, x, to, {}, where) : x; };
  const Output each = GatherV2(g, rows, which, Const(g, 0, {}, where), {}, where);
  const Output column = AsColumn(g, cast(weights, wide), rank, where);
  Output sum = SegmentSum(g, Mul(g, cast(each, wide), column, {}, where), examples, {}, where);
  if (combiner == Combiner::kMean) {
    sum = DivNoNan(g, sum, SegmentSum(g, column, examples, {}, where), {}, where);
  } else if (combiner == Combiner::kSqrtN) {
    const Output squares = SegmentSum(g, Square(g, column, {}, where), examples, {}, where);
    sum = DivNoNan(g, sum, Sqrt(g, squares, {}, where), {}, where);
  }
  return cast(sum, dtype);
}

bool CheckPartsOrSetError(GraphBuilder& g, absl::string_view name, const std::vector<ModelVariable>& parts,
                          PartitionStrategy strategy, int64_t* rows, SourceLocation where) {
  if (!g.ok()) return false;
  const absl::StatusOr<int64_t> checked = CheckParts(parts, strategy);
  if (checked.ok()) {
    *rows = *checked;
    return true;
  }
  g.SetError(absl::Status(checked.status().code(), absl::StrCat(name, ": ", checked.status().message())),
             where);
  return false;
}

}  // namespace

Output EmbeddingLookup(GraphBuilder& g, const ModelVariable& table, Output ids, const NodeOptions& options,
                       SourceLocation where) {
  if (!g.ok()) return {};
  const auto scope = g.NameScope(options.name.empty() ? "embedding_lookup" : options.name);
  const std::string asker = absl::StrCat("EmbeddingLookup '", g.name_scope(), "'");
  if (!CheckGiven(g, asker, "the table", table.handle, where) || !CheckGiven(g, asker, "ids", ids, where)) {
    return {};
  }
  return Gather(g, table, ids, where);
}

Output EmbeddingLookup(GraphBuilder& g, const std::vector<ModelVariable>& parts, Output ids,
                       const EmbeddingLookupOptions& options, SourceLocation where) {
  int64_t rows = 0;
  if (!CheckPartsOrSetError(g, "EmbeddingLookup", parts, options.strategy, &rows, where)) return {};
  const auto scope = g.NameScope(options.name);
  if (!CheckGiven(g, absl::StrCat("EmbeddingLookup '", g.name_scope(), "'"), "ids", ids, where)) return {};
  return LookUp(g, parts, ids, rows, options.strategy, where);
}

Output EmbeddingLookupSparse(GraphBuilder& g, const std::vector<ModelVariable>& parts, const SparseIds& ids,
                             const EmbeddingLookupSparseOptions& options, SourceLocation where) {
  int64_t rows = 0;
  if (!CheckPartsOrSetError(g, "EmbeddingLookupSparse", parts, options.strategy, &rows, where)) return {};
  const auto scope = g.NameScope(options.name);
  const std::string asker = absl::StrCat("EmbeddingLookupSparse '", g.name_scope(), "'");
  if (!CheckGiven(g, asker, "the values of the ids", ids.values, where) ||
      !CheckGiven(g, asker, "the indices of the ids", ids.indices, where)) {
    return {};
  }
  const UniqueOutputs unique = Unique(g, ids.values, {}, where);
  const Output found = LookUp(g, parts, unique.y, rows, options.strategy, where);
  const Output examples = Examples(g, ids.indices, where);
  if (!options.weights) return Combine(g, found, unique.idx, examples, options.combiner, where);
  return CombineWeighted(g, found, unique.idx, examples, options.weights, parts[0].shape.rank(),
                         options.combiner, where);
}

}  // namespace weir
