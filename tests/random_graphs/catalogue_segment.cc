// Rows that belong together: segments, counting, parting and stitching.
#include <algorithm>
#include <numeric>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

// Numbers that never fall, from 0 or a little above; some may be left out.
std::vector<int64_t> SortedIds(Pool& pool, int64_t count) {
  std::vector<int64_t> ids;
  int64_t id = pool.random().Chance(15) ? 1 : 0;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(id);
    if (pool.random().Chance(40)) id += pool.random().Chance(15) ? 2 : 1;
  }
  return ids;
}

// A tensor with at least one row.
Operand DrawRows(Pool& pool, DType dtype) {
  return pool.Draw(
      dtype, [](const Operand& operand) { return operand.rank() > 0 && operand.value.dim(0) > 0; },
      [&] {
        Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Below(3)));
        dims.insert(dims.begin(), pool.random().Between(1, 5));
        return pool.Leaf(dtype, dims);
      });
}

Call DrawSegments(Pool& pool, DType dtype) {
  const Operand data = DrawRows(pool, dtype);
  return OpCall{{data.output, pool.Integers(SortedIds(pool, data.value.dim(0)))}};
}

Call DrawUnsortedSegments(Pool& pool, DType dtype) {
  const Operand data = pool.Any(dtype);
  const int64_t num_segments = pool.random().Between(1, 4);
  const Index dims(data.dims().begin(), data.dims().begin() + pool.random().Below(data.rank() + 1));
  const Operand ids =
      pool.OfShapeBetween(pool.random().Pick(Integers()), dims, -1, static_cast<double>(num_segments - 1));
  return OpCall{{data.output, ids.output, pool.Integer(num_segments)}};
}

DrawCall DrawSparseSegments(bool has_count) {
  return [has_count](Pool& pool, DType dtype) -> Call {
    const Operand data = DrawRows(pool, dtype);
    const int64_t count = pool.random().Between(1, 5);
    const std::vector<int64_t> ids = SortedIds(pool, count);
    OpCall call = {{data.output, DrawIndices(pool, count, 0, data.value.dim(0) - 1), pool.Integers(ids)}};
    if (has_count) call.inputs.push_back(pool.Integer(ids.back() + 1 + pool.random().Below(2)));
    return call;
  };
}

Call DrawSparseSegmentsGrad(Pool& pool, DType dtype) {
  const Operand grad = DrawRows(pool, dtype);
  const int64_t count = pool.random().Between(1, 5), rows = pool.random().Between(1, 4);
  std::vector<int64_t> ids = SortedIds(pool, count);
  for (int64_t& id : ids) id = std::min(id, grad.value.dim(0) - 1);
  return OpCall{{grad.output, DrawIndices(pool, count, 0, rows - 1), pool.Integers(ids),
                 pool.Integer(rows, DType::kInt32)}};
}

Call DrawBincount(Pool& pool, DType dtype) {
  const Operand values = pool.Between(DType::kInt32, 0, 6);
  const Index dims = pool.random().Chance(30) ? Index{0} : values.dims();
  return OpCall{{values.output, pool.Integer(pool.random().Between(0, 7), DType::kInt32),
                 pool.OfShape(dtype, dims).output}};
}

// How many rows each part has depends on values, so they never vary.
Call DrawDynamicPartition(Pool& pool, DType dtype) {
  const Operand data = DrawRows(pool, dtype);
  const int64_t count = pool.random().Between(1, 3);
  const Index dims(data.dims().begin(), data.dims().begin() + pool.random().Between(1, data.rank()));
  const Operand partitions = pool.OfShapeBetween(DType::kInt32, dims, 0, static_cast<double>(count - 1));
  return OpCall{{data.output, partitions.output}, {{"num_partitions", count}}};
}

// All rows are written once, in any order.
Call DrawStitch(Pool& pool, DType dtype) {
  const Index row = pool.DimsOfRank(static_cast<int>(pool.random().Below(3)));
  std::vector<int64_t> order(pool.random().Between(1, 6));
  std::iota(order.begin(), order.end(), 0);
  pool.random().Shuffle(&order);
  std::vector<Output> indices, data;
  for (size_t at = 0; at < order.size();) {
    const auto end = static_cast<size_t>(
        pool.random().Between(static_cast<int64_t>(at), static_cast<int64_t>(order.size())));
    Index dims = row;
    dims.insert(dims.begin(), static_cast<int64_t>(end - at));
    indices.push_back(
        pool.Integers({order.begin() + static_cast<int64_t>(at), order.begin() + static_cast<int64_t>(end)},
                      DType::kInt32));
    data.push_back(pool.OfShape(dtype, dims).output);
    at = end;
  }
  return OpCall{{InputArg(indices), InputArg(data)}};
}

}  // namespace

void AddSegmentRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 2) {
    rows->push_back({op, dtypes, draw, weight});
  };
  for (const char* op : {"SegmentSum", "SegmentMean", "SegmentProd", "SegmentMin", "SegmentMax"}) {
    add(op, Numbers(), DrawSegments);
  }
  add("UnsortedSegmentSum", Numbers(), DrawUnsortedSegments, 4);
  for (const char* op : {"UnsortedSegmentProd", "UnsortedSegmentMin", "UnsortedSegmentMax"}) {
    add(op, Numbers(), DrawUnsortedSegments);
  }
  add("SparseSegmentSum", Numbers(), DrawSparseSegments(/*has_count=*/false));
  add("SparseSegmentSumWithNumSegments", Numbers(), DrawSparseSegments(/*has_count=*/true), 1);
  for (const char* op : {"SparseSegmentMean", "SparseSegmentSqrtN"}) {
    add(op, Floats(), DrawSparseSegments(/*has_count=*/false));
  }
  for (const char* op : {"SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments"}) {
    add(op, Floats(), DrawSparseSegments(/*has_count=*/true), 1);
  }
  for (const char* op : {"SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad"}) {
    add(op, Floats(), DrawSparseSegmentsGrad, 1);
  }
  add("Bincount", {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64}, DrawBincount);
  add("DynamicPartition", AnyElement(), DrawDynamicPartition, 3);
  add("DynamicStitch", AnyElement(), DrawStitch, 3);
  add("ParallelDynamicStitch", AnyElement(), DrawStitch, 1);
}

}  // namespace weir::random_graphs
