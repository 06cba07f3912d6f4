// Elements in another order, blocks of images, paddings, and the ops that gradients of shapes need.
#include <algorithm>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

Call DrawReverse(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (pool.random().Chance(50)) axes.push_back(MaybeFromBack(pool, i, x.rank()));
  }
  pool.random().Shuffle(&axes);
  return OpCall{{x.output, pool.Integers(axes)}};
}

Call DrawReverseSequence(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 2);
  const int64_t batch = AnyAxis(pool, x.rank());
  const int64_t sequence = (batch + pool.random().Between(1, x.rank() - 1)) % x.rank();
  const Operand lengths =
      pool.OfShapeBetween(pool.random().Pick(Integers()), {x.value.dim(static_cast<int>(batch))}, 0,
                          static_cast<double>(x.value.dim(static_cast<int>(sequence))));
  return OpCall{{x.output, lengths.output}, {{"seq_dim", sequence}, {"batch_dim", batch}}};
}

Array Pairs(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  Array array({static_cast<int64_t>(pairs.size()), 2});
  for (size_t i = 0; i < pairs.size(); ++i) {
    array[2 * static_cast<int64_t>(i)] = static_cast<double>(pairs[i].first);
    array[2 * static_cast<int64_t>(i) + 1] = static_cast<double>(pairs[i].second);
  }
  return array;
}

Call DrawSpaceToBatch(Pool& pool, DType dtype) {
  Random& random = pool.random();
  const Operand x = pool.OfRankAtLeast(dtype, 2);
  std::vector<int64_t> blocks;
  std::vector<std::pair<int64_t, int64_t>> paddings;
  for (int i = 1; i < std::min(x.rank(), 3) && (i == 1 || random.Chance(60)); ++i) {
    blocks.push_back(random.Between(1, 3));
    const int64_t before = random.Below(2), over = (x.value.dim(i) + before) % blocks.back();
    paddings.emplace_back(before, over == 0 ? 0 : blocks.back() - over);
  }
  return OpCall{{x.output, pool.Integers(blocks), pool.Exactly(Pairs(paddings), random.Pick(Integers()))}};
}

Call DrawBatchToSpace(Pool& pool, DType dtype) {
  Random& random = pool.random();
  const int64_t block = random.Between(1, 2), count = random.Between(1, 2);
  const int64_t all = count == 2 ? block * block : block;
  const Operand x = pool.Draw(
      dtype,
      [&](const Operand& operand) { return operand.rank() > count && operand.value.dim(0) % all == 0; },
      [&] {
        Index dims = pool.DimsOfRank(static_cast<int>(count) + 1);
        dims[0] = all * random.Between(1, 2);
        return pool.Leaf(dtype, dims);
      });
  std::vector<std::pair<int64_t, int64_t>> crops;
  for (int i = 1; i <= count; ++i) {
    const int64_t size = x.value.dim(i) * block, before = random.Between(0, std::min<int64_t>(size, 1));
    crops.emplace_back(before, random.Between(0, std::min<int64_t>(size - before, 1)));
  }
  return OpCall{{x.output, pool.Integers(std::vector<int64_t>(count, block)),
                 pool.Exactly(Pairs(crops), random.Pick(Integers()))}};
}

DrawCall DrawBlocks(bool to_depth) {
  return [to_depth](Pool& pool, DType dtype) -> Call {
    const auto fits = [&](const Operand& operand) {
      if (operand.rank() != 4) return false;
      return to_depth ? operand.value.dim(1) % 2 == 0 && operand.value.dim(2) % 2 == 0
                      : operand.value.dim(3) % 4 == 0;
    };
    const Operand x = pool.Draw(dtype, fits, [&] {
      Random& random = pool.random();
      return pool.Leaf(
          dtype, to_depth ? Index{random.Between(1, 2), 2, 2 * random.Between(1, 2), random.Between(1, 3)}
                          : Index{random.Between(1, 2), random.Between(1, 2), 2, 4});
    });
    return OpCall{{x.output}, {{"block_size", int64_t{2}}}};
  };
}

Call DrawPadV2(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  std::vector<std::pair<int64_t, int64_t>> paddings;
  Index dims = x.dims();
  for (int64_t& dim : dims) {
    paddings.emplace_back(pool.random().Chance(60) ? 0 : 1, pool.random().Chance(60) ? 0 : 2);
    dim += paddings.back().first + paddings.back().second;
  }
  if (SizeOf(dims) > 100) return std::nullopt;
  return OpCall{{x.output, pool.Exactly(Pairs(paddings), pool.random().Pick(Integers())),
                 pool.OfRank(dtype, 0).output}};
}

// Mirrors reach at most as far as there are elements; in REFLECT the border is not repeated.
Call DrawMirrorPad(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  if (x.value.size() == 0 || x.rank() > 4) return std::nullopt;
  const bool reflects = pool.random().Chance(50);
  std::vector<std::pair<int64_t, int64_t>> paddings;
  Index dims = x.dims();
  for (int64_t& dim : dims) {
    const int64_t most = std::min<int64_t>(dim - (reflects ? 1 : 0), 2);
    paddings.emplace_back(pool.random().Between(0, most), pool.random().Between(0, most));
    dim += paddings.back().first + paddings.back().second;
  }
  if (SizeOf(dims) > 150) return std::nullopt;
  return OpCall{{x.output, pool.Exactly(Pairs(paddings), pool.random().Pick(Integers()))},
                {{"mode", reflects ? "REFLECT" : "SYMMETRIC"}}};
}

Call DrawMirrorPadGrad(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  if (x.value.size() == 0 || x.rank() > 4) return std::nullopt;
  const bool reflects = pool.random().Chance(50);
  std::vector<std::pair<int64_t, int64_t>> paddings;
  for (int64_t dim : x.dims()) {
    std::pair<int64_t, int64_t> padding;
    for (int64_t* side : {&padding.first, &padding.second}) {
      *side = pool.random().Below(2);
      const int64_t inner = dim - padding.first - padding.second;
      if (inner < (reflects ? 2 : 1)) *side = 0;
    }
    paddings.push_back(padding);
  }
  return OpCall{{x.output, pool.Exactly(Pairs(paddings), pool.random().Pick(Integers()))},
                {{"mode", reflects ? "REFLECT" : "SYMMETRIC"}}};
}

// Each dimension from some element on, forwards or backwards, to the end.
Call DrawStridedSliceGrad(Pool& pool, DType dtype) {
  const Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Between(1, 3)));
  std::vector<int64_t> begin, end, strides;
  Index result;
  int64_t end_mask = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t stride = pool.random().Pick<int64_t>({1, 2, -1});
    const int64_t from = dims[i] == 0 ? 0 : pool.random().Below(dims[i]);
    begin.push_back(from);
    end.push_back(0);
    strides.push_back(stride);
    end_mask |= int64_t{1} << i;
    const int64_t left = dims[i] == 0 ? 0 : stride > 0 ? dims[i] - from : from + 1;
    result.push_back((left + std::abs(stride) - 1) / std::abs(stride));
  }
  const DType index = pool.random().Pick(Integers());
  return OpCall{{pool.Integers(dims, index), pool.Integers(begin, index), pool.Integers(end, index),
                 pool.Integers(strides, index), pool.OfShape(dtype, result).output},
                {{"end_mask", end_mask}}};
}

Call DrawBroadcastGradientArgs(Pool& pool, DType dtype) {
  const Index whole = pool.AnyDims();
  std::vector<Output> shapes;
  for (int i = 0; i < 2; ++i) {
    Index dims = whole;
    if (pool.random().Chance(30))
      dims.erase(dims.begin(), dims.begin() + pool.random().Below(dims.size() + 1));
    for (int64_t& dim : dims) dim = pool.random().Chance(30) ? 1 : dim;
    shapes.push_back(pool.Integers(dims, dtype));
  }
  return OpCall{{shapes[0], shapes[1]}};
}

Call DrawConcatOffset(Pool& pool, DType dtype) {
  Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Between(1, 3)));
  const int rank = static_cast<int>(dims.size());
  const int64_t axis = AnyAxis(pool, rank);
  std::vector<Output> shapes;
  for (int64_t count = pool.random().Between(2, 4); count > 0; --count) {
    dims[axis] = pool.random().Between(0, 3);
    shapes.push_back(pool.Integers(dims, dtype));
  }
  return OpCall{{pool.Integer(MaybeFromBack(pool, axis, rank), DType::kInt32), InputArg(shapes)}};
}

}  // namespace

void AddLayoutRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 2) {
    rows->push_back({op, dtypes, draw, weight});
  };
  add("ReverseV2", AnyElement(), DrawReverse, 3);
  add("ReverseSequence", AnyElement(), DrawReverseSequence);
  add("SpaceToBatchND", AnyElement(), DrawSpaceToBatch);
  add("BatchToSpaceND", AnyElement(), DrawBatchToSpace);
  add("SpaceToDepth", AnyElement(), DrawBlocks(/*to_depth=*/true));
  add("DepthToSpace", AnyElement(), DrawBlocks(/*to_depth=*/false));
  add("PadV2", Numbers(), DrawPadV2);
  add("MirrorPad", Numbers(), DrawMirrorPad);
  add("MirrorPadGrad", Numbers(), DrawMirrorPadGrad, 1);
  add("StridedSliceGrad", Anything(), DrawStridedSliceGrad, 1);
  add("BroadcastGradientArgs", Integers(), DrawBroadcastGradientArgs, 1);
  add("ConcatOffset", {DType::kInt32}, DrawConcatOffset, 1);
}

}  // namespace weir::random_graphs
