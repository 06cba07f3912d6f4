#include "examples/wide_deep/model.h"

#include "absl/strings/str_cat.h"
#include "ops/embedding.h"
#include "ops/layers/layers.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir::examples {
namespace {

// ids[:, slot]
Output Column(GraphBuilder& g, Output ids, int slot) {
  return StridedSlice(g, ids, ConstIntegers(g, {0, slot}), ConstIntegers(g, {0, slot + 1}),
                      ConstIntegers(g, {1, 1}), {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
}

}  // namespace

Output WideDeep(GraphBuilder& g, Output ids, Output numbers, const WideDeepOptions& options) {
  if (!ids || !numbers) return {};
  const PartialShape &ids_shape = ids.shape(), &numbers_shape = numbers.shape();
  if (ids_shape.rank() != 2 || ids_shape.dim(1) == PartialShape::kUnknownDim || numbers_shape.rank() != 2) {
    g.SetError(absl::InvalidArgumentError(
        absl::StrCat("WideDeep: ids must be [batch,slots] with known slots and numbers [batch,count], are ",
                     ids_shape.ToString(), " and ", numbers_shape.ToString())));
    return {};
  }
  std::vector<Output> vectors, weights;
  for (int slot = 0; slot < ids.shape().dim(1); ++slot) {
    const ModelVariable table =
        MakeVariable(g, "deep/embedding", DType::kFloat32, Shape({options.rows, options.embedding_size}),
                     initializers::TruncatedNormal(0.01));
    const ModelVariable weight =
        MakeVariable(g, "wide/weights", DType::kFloat32, Shape({options.rows, 1}), initializers::Zeros());
    const Output column = Column(g, ids, slot);
    vectors.push_back(EmbeddingLookup(g, table, column));
    weights.push_back(EmbeddingLookup(g, weight, column));
  }
  vectors.push_back(numbers);
  Output hidden = ConcatV2(g, vectors, Const(g, 1));
  for (int64_t units : options.hidden_units) hidden = layers::Dense(g, hidden, units, Relu);
  return AddV2(g, layers::Dense(g, hidden, 1), AddN(g, weights));
}

}  // namespace weir::examples
