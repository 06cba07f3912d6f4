// Elements and slices by their coordinates, distinct elements, the largest.
#include <algorithm>
#include <numeric>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

bool HasSlices(const Operand& operand) { return operand.rank() > 0 && operand.value.size() > 0; }

Operand DrawWithSlices(Pool& pool, DType dtype) {
  return pool.Draw(dtype, HasSlices, [&] {
    Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Between(1, 3)));
    for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 1);
    return pool.Leaf(dtype, dims);
  });
}

Call DrawGatherNd(Pool& pool, DType dtype) {
  const Operand params = DrawWithSlices(pool, dtype);
  return OpCall{{params.output, DrawCoordinates(pool, params.dims(), false).output}};
}

Call DrawScatterNd(Pool& pool, DType dtype) {
  Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Between(1, 3)));
  for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 1);
  const Coordinates at = DrawCoordinates(pool, dims, false);
  if (!at.output) return std::nullopt;
  return OpCall{{at.output, pool.OfShape(dtype, at.updates).output, pool.Integers(dims, at.output.dtype())}};
}

DrawCall DrawTensorScatter(bool distinct) {
  return [distinct](Pool& pool, DType dtype) -> Call {
    const Operand tensor = DrawWithSlices(pool, dtype);
    const Coordinates at = DrawCoordinates(pool, tensor.dims(), distinct);
    return OpCall{{tensor.output, at.output, pool.OfShape(dtype, at.updates).output}};
  };
}

// Numbers of which many are equal. What comes out depends on them, so they never vary.
Operand DrawRepeated(Pool& pool, DType dtype, int rank) {
  const auto fits = [&](const Operand& operand) {
    return !operand.varies && operand.rank() == rank && operand.value.size() <= 20;
  };
  return pool.Draw(dtype, fits, [&] {
    Index dims = pool.DimsOfRank(rank);
    if (rank == 1) dims[0] = pool.random().Between(0, 7);
    return pool.Leaf(dtype, dims, 0, 2);
  });
}

Call DrawUnique(Pool& pool, DType dtype) {
  return OpCall{{DrawRepeated(pool, dtype, 1).output}, {{"out_idx", pool.random().Pick(Integers())}}};
}

Call DrawUniqueAlong(Pool& pool, DType dtype) {
  const Operand x = DrawRepeated(pool, dtype, static_cast<int>(pool.random().Between(1, 2)));
  const int64_t axis = MaybeFromBack(pool, AnyAxis(pool, x.rank()), x.rank());
  return OpCall{{x.output, pool.Integers({axis})}, {{"out_idx", pool.random().Pick(Integers())}}};
}

Call DrawListDiff(Pool& pool, DType dtype) {
  const Operand x = DrawRepeated(pool, dtype, 1);
  return OpCall{{x.output, DrawRepeated(pool, dtype, 1).output},
                {{"out_idx", pool.random().Pick(Integers())}}};
}

Call DrawTopKV2(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  const int64_t k = pool.random().Between(0, x.dims().back());
  return OpCall{{x.output, pool.Integer(k, DType::kInt32)}};
}

Call DrawTopK(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  return OpCall{{x.output}, {{"k", pool.random().Between(0, x.dims().back())}}};
}

Call DrawInTopK(Pool& pool, DType dtype) {
  const Operand predictions = pool.OfRank(DType::kFloat32, 2);
  if (predictions.value.size() == 0) return std::nullopt;
  const int64_t classes = predictions.value.dim(1);
  const Operand targets =
      pool.OfShapeBetween(dtype, {predictions.value.dim(0)}, 0, static_cast<double>(classes - 1));
  return OpCall{{predictions.output, targets.output, pool.Integer(pool.random().Between(1, classes), dtype)}};
}

}  // namespace

Coordinates DrawCoordinates(Pool& pool, const Index& dims, bool distinct) {
  Random& random = pool.random();
  const int64_t depth = random.Between(dims.empty() ? 0 : 1, static_cast<int64_t>(dims.size()));
  int64_t num_slices = 1;
  for (int64_t d = 0; d < depth; ++d) num_slices *= dims[d];
  std::vector<int64_t> slices(num_slices);
  std::iota(slices.begin(), slices.end(), 0);
  random.Shuffle(&slices);
  const int64_t count = distinct ? random.Between(1, std::min<int64_t>(num_slices, 4)) : random.Between(1, 4);
  const bool is_vector = count == 1 && random.Chance(50);
  Array indices(is_vector ? Index{depth} : Index{count, depth});
  for (int64_t i = 0; i < count; ++i) {
    int64_t slice = distinct ? slices[i] : random.Below(num_slices);
    for (int64_t d = depth - 1; d >= 0; --d) {
      indices[i * depth + d] = static_cast<double>(slice % dims[d]);
      slice /= dims[d];
    }
  }
  Index updates = is_vector ? Index{} : Index{count};
  updates.insert(updates.end(), dims.begin() + depth, dims.end());
  return {pool.Exactly(indices, random.Pick(Integers())), indices, updates};
}

Output DrawIndices(Pool& pool, int64_t count, int64_t low, int64_t high, DType dtype) {
  if (dtype == DType::kInvalid) dtype = pool.random().Pick(Integers());
  return pool.OfShapeBetween(dtype, {count}, static_cast<double>(low), static_cast<double>(high)).output;
}

void AddIndexRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 2) {
    rows->push_back({op, dtypes, draw, weight});
  };
  add("GatherNd", AnyElement(), DrawGatherNd, 3);
  add("ScatterNd", Numbers(), DrawScatterNd, 3);
  for (const char* op : {"TensorScatterAdd", "TensorScatterSub", "ScatterNdNonAliasingAdd"}) {
    add(op, Numbers(), DrawTensorScatter(/*distinct=*/false));
  }
  for (const char* op : {"TensorScatterMax", "TensorScatterMin"}) {
    add(op, Numbers(), DrawTensorScatter(/*distinct=*/false), 1);
  }
  add("TensorScatterUpdate", AnyElement(), DrawTensorScatter(/*distinct=*/true));
  for (const char* op : {"Unique", "UniqueWithCounts"}) add(op, Numbers(), DrawUnique);
  for (const char* op : {"UniqueV2", "UniqueWithCountsV2"}) add(op, Numbers(), DrawUniqueAlong, 1);
  add("ListDiff", Numbers(), DrawListDiff);
  add("TopKV2", Numbers(), DrawTopKV2, 3);
  add("TopK", Numbers(), DrawTopK, 1);
  add("InTopKV2", Integers(), DrawInTopK, 1);
}

}  // namespace weir::random_graphs
