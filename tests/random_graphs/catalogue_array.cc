// Shapes, layouts, cutting, joining, choosing, looking up.
#include <algorithm>
#include <numeric>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

Call DrawReshape(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  int64_t left = x.value.size();
  std::vector<int64_t> dims;
  while (left > 1 && dims.size() < 3 && pool.random().Chance(70)) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= left; ++d) {
      if (left % d == 0) divisors.push_back(d);
    }
    dims.push_back(pool.random().Pick(divisors));
    left /= dims.back();
  }
  if (left != 1 || x.value.size() == 0) dims.push_back(left);
  if (pool.random().Chance(20)) dims.push_back(1);
  if (x.value.size() > 0 && !dims.empty() && pool.random().Chance(30)) {
    dims[pool.random().Below(static_cast<int64_t>(dims.size()))] = -1;
  }
  return OpCall{{x.output, pool.Integers(dims)}};
}

Call DrawTranspose(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  pool.random().Shuffle(&perm);
  return OpCall{{x.output, pool.Integers(perm)}};
}

Call DrawExpandDims(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  if (x.rank() >= 5) return std::nullopt;
  return OpCall{{x.output, pool.Integer(pool.random().Between(-x.rank() - 1, x.rank()))}};
}

Call DrawSqueeze(Pool& pool, DType dtype) {
  const Operand x = pool.Draw(
      dtype,
      [](const Operand& operand) { return std::count(operand.dims().begin(), operand.dims().end(), 1) > 0; },
      [&] {
        Index dims = pool.AnyDims();
        dims.insert(dims.begin() + pool.random().Below(static_cast<int64_t>(dims.size()) + 1), 1);
        return pool.Leaf(dtype, dims);
      });
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.value.dim(i) == 1 && pool.random().Chance(40)) axes.push_back(MaybeFromBack(pool, i, x.rank()));
  }
  return OpCall{{x.output}, {{"squeeze_dims", axes}}};
}

Call DrawConcat(Pool& pool, DType dtype) {
  const Operand first = pool.OfRankAtLeast(dtype, 1);
  const int64_t axis = AnyAxis(pool, first.rank());
  std::vector<Output> values = {first.output};
  for (int64_t count = 1 + pool.random().Below(3); count > 0; --count) {
    const auto fits = [&](const Operand& operand) {
      if (operand.rank() != first.rank()) return false;
      for (int i = 0; i < first.rank(); ++i) {
        if (i != axis && operand.value.dim(i) != first.value.dim(i)) return false;
      }
      return true;
    };
    values.push_back(pool.Draw(dtype, fits,
                               [&] {
                                 Index dims = first.dims();
                                 dims[axis] = pool.random().Between(0, 2);
                                 return pool.Leaf(dtype, dims);
                               })
                         .output);
  }
  return OpCall{{InputArg(values), pool.Integer(MaybeFromBack(pool, axis, first.rank()))}};
}

Call DrawSplit(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  const int64_t axis = AnyAxis(pool, x.rank()), dim = x.value.dim(static_cast<int>(axis));
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= 4; ++n) {
    if (dim % n == 0) counts.push_back(n);
  }
  return OpCall{{pool.Integer(MaybeFromBack(pool, axis, x.rank()), DType::kInt32), x.output},
                {{"num_split", pool.random().Pick(counts)}}};
}

// Parts of any size, some of them empty; the size of one may be left to the op.
Call DrawSplitV(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  const int64_t axis = AnyAxis(pool, x.rank());
  int64_t rest = x.value.dim(static_cast<int>(axis));
  std::vector<int64_t> sizes;
  for (int64_t more = pool.random().Below(3); more > 0; --more) {
    sizes.push_back(pool.random().Between(0, rest));
    rest -= sizes.back();
  }
  sizes.push_back(rest);
  pool.random().Shuffle(&sizes);
  const auto num_split = static_cast<int64_t>(sizes.size());
  if (pool.random().Chance(30)) sizes[pool.random().Below(num_split)] = -1;
  return OpCall{
      {x.output, pool.Integers(sizes), pool.Integer(MaybeFromBack(pool, axis, x.rank()), DType::kInt32)},
      {{"num_split", num_split}}};
}

// An axis may be named twice.
Call DrawRoll(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  std::vector<int64_t> shifts, axes;
  for (int64_t more = pool.random().Between(1, 3); more > 0; --more) {
    shifts.push_back(pool.random().Between(-5, 5));
    axes.push_back(MaybeFromBack(pool, AnyAxis(pool, x.rank()), x.rank()));
  }
  return OpCall{{x.output, pool.Integers(shifts), pool.Integers(axes)}};
}

Call DrawEnsureShape(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  std::vector<int64_t> dims(x.dims().begin(), x.dims().end());
  for (int64_t& dim : dims) {
    if (pool.random().Chance(30)) dim = -1;
  }
  const absl::StatusOr<PartialShape> shape = PartialShape::FromDims(dims);
  if (!shape.ok()) return std::nullopt;
  return OpCall{{x.output}, {{"shape", pool.random().Chance(20) ? PartialShape() : *shape}}};
}

Call DrawBroadcastArgs(Pool& pool, DType dtype) {
  Index dims[2];
  for (int64_t rank = pool.random().Below(4); rank > 0; --rank) {
    const int64_t dim = pool.random().Between(1, 4);
    for (Index& one : dims) one.push_back(pool.random().Chance(30) ? 1 : dim);
  }
  Index& shorter = dims[pool.random().Below(2)];
  shorter.erase(shorter.begin(), shorter.begin() + pool.random().Between(0, shorter.size()));
  return OpCall{{pool.Integers(dims[0], dtype), pool.Integers(dims[1], dtype)}};
}

Call DrawPack(Pool& pool, DType dtype) {
  const Operand first = pool.Any(dtype);
  std::vector<Output> values = {first.output};
  for (int64_t count = pool.random().Below(3); count > 0; --count) {
    values.push_back(pool.OfShape(dtype, first.dims()).output);
  }
  return OpCall{{InputArg(values)}, {{"axis", pool.random().Between(-first.rank() - 1, first.rank())}}};
}

Call DrawUnpack(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  const int64_t axis = AnyAxis(pool, x.rank()), num = x.value.dim(static_cast<int>(axis));
  if (num == 0 || num > 6) return std::nullopt;
  return OpCall{{x.output}, {{"num", num}, {"axis", MaybeFromBack(pool, axis, x.rank())}}};
}

Call DrawSlice(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  std::vector<int64_t> begin, size;
  for (int64_t dim : x.dims()) {
    begin.push_back(pool.random().Between(0, dim));
    size.push_back(pool.random().Chance(20) ? -1 : pool.random().Between(0, dim - begin.back()));
  }
  const DType index = pool.random().Pick(Integers());
  return OpCall{{x.output, pool.Integers(begin, index), pool.Integers(size, index)}};
}

Call DrawStridedSlice(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  Random& random = pool.random();
  std::vector<int64_t> begin, end, strides;
  int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0;
  const auto entry = [&](int64_t b, int64_t e, int64_t s) {
    begin.push_back(b);
    end.push_back(e);
    strides.push_back(s);
    return int64_t{1} << (begin.size() - 1);
  };
  int axis = 0;
  while (axis < x.rank() && begin.size() < 6 && !random.Chance(15)) {
    const int64_t dim = x.value.dim(axis);
    if (random.Chance(12)) {
      new_axis_mask |= entry(random.Between(-2, 2), 0, 1);
    } else if (ellipsis_mask == 0 && random.Chance(15)) {
      ellipsis_mask |= entry(0, 0, 1);
      axis += static_cast<int>(random.Between(0, x.rank() - axis));
      // What follows counts from the back: leave exactly that many dimensions.
      const int behind = x.rank() - axis;
      for (int i = 0; i < behind; ++i) {
        const int64_t bit = entry(0, x.value.dim(axis + i), 1);
        if (random.Chance(40)) begin_mask |= bit;
      }
      axis = x.rank();
    } else if (dim > 0 && random.Chance(20)) {
      const int64_t at = random.Between(-dim, dim - 1);
      shrink_axis_mask |= entry(at, at + 1, 1);
      ++axis;
    } else {
      const int64_t step = random.Pick<int64_t>({1, 1, 2, -1, -2, 3});
      const int64_t from = random.Between(-dim - 1, dim + 1), to = random.Between(-dim - 1, dim + 1);
      const int64_t bit = entry(from, to, step);
      if (random.Chance(40)) begin_mask |= bit;
      if (random.Chance(40)) end_mask |= bit;
      ++axis;
    }
  }
  const DType index = random.Pick(Integers());
  return OpCall{
      {x.output, pool.Integers(begin, index), pool.Integers(end, index), pool.Integers(strides, index)},
      {{"begin_mask", begin_mask},
       {"end_mask", end_mask},
       {"ellipsis_mask", ellipsis_mask},
       {"new_axis_mask", new_axis_mask},
       {"shrink_axis_mask", shrink_axis_mask}}};
}

Call DrawPad(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  Index dims = x.dims();
  Array paddings({x.rank(), 2});
  for (int i = 0; i < x.rank(); ++i) {
    for (int side = 0; side < 2; ++side) {
      const int64_t padding = pool.random().Chance(60) ? 0 : pool.random().Between(1, 2);
      paddings.at({i, side}) = static_cast<double>(padding);
      dims[i] += padding;
    }
  }
  if (SizeOf(dims) > 100) return std::nullopt;
  return OpCall{{x.output, pool.Exactly(paddings, pool.random().Pick(Integers()))}};
}

Call DrawTile(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  std::vector<int64_t> multiples;
  int64_t size = x.value.size();
  for (int i = 0; i < x.rank(); ++i) {
    multiples.push_back(pool.random().Chance(70) ? 1 : pool.random().Between(0, 3));
    size *= multiples.back();
  }
  if (size > 100) return std::nullopt;
  return OpCall{{x.output, pool.Integers(multiples)}};
}

Call DrawBroadcastTo(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  Index dims = x.dims();
  for (int64_t& dim : dims) {
    if (dim == 1) dim = pool.random().Between(1, 3);
  }
  if (pool.random().Chance(30)) dims.insert(dims.begin(), pool.random().Between(1, 3));
  if (SizeOf(dims) > 100) return std::nullopt;
  return OpCall{{x.output, pool.Integers(dims)}};
}

Call DrawGather(Pool& pool, DType dtype) {
  const Operand params = pool.OfRankAtLeast(dtype, 1);
  const int64_t axis = AnyAxis(pool, params.rank()), dim = params.value.dim(static_cast<int>(axis));
  if (dim == 0) return std::nullopt;
  const Operand indices = pool.Between(pool.random().Pick(Integers()), 0, static_cast<double>(dim - 1));
  if (indices.value.size() * params.value.size() / dim > 200) return std::nullopt;
  return OpCall{{params.output, indices.output, pool.Integer(axis)}};
}

Call DrawOneHot(Pool& pool, DType dtype) {
  const Operand indices = pool.Between(pool.random().Pick(Integers()), -1, 5);
  const int64_t depth = pool.random().Between(1, 4);
  if (indices.value.size() * depth > 100) return std::nullopt;
  return OpCall{{indices.output, pool.Integer(depth, DType::kInt32), pool.OfRank(dtype, 0).output,
                 pool.OfRank(dtype, 0).output},
                {{"axis", pool.random().Between(-1, indices.rank())}}};
}

Call DrawSelect(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  Index condition = x.dims();
  if (x.rank() > 0 && pool.random().Chance(30)) condition = {x.value.dim(0)};
  return OpCall{
      {pool.OfShape(DType::kBool, condition).output, x.output, pool.OfShape(dtype, x.dims()).output}};
}

Call DrawSelectV2(Pool& pool, DType dtype) {
  const Operand condition = pool.Any(DType::kBool);
  const Operand x = pool.BroadcastsWith(dtype, condition.dims());
  // Against both at once: what fits the larger of them.
  Index both(std::max(condition.rank(), x.rank()), 1);
  for (const Operand* operand : {&condition, &x}) {
    for (int i = 0; i < operand->rank(); ++i) {
      if (operand->value.dim(i) != 1) both[both.size() - operand->rank() + i] = operand->value.dim(i);
    }
  }
  return OpCall{{condition.output, x.output, pool.BroadcastsWith(dtype, both).output}};
}

// Where the number of results depends on values, they must not vary.
Call DrawWhere(Pool& pool, DType dtype) {
  const Operand x = pool.Between(dtype, -100, 100);
  if (x.rank() == 0 || x.rank() > 4) return std::nullopt;
  return OpCall{{x.output}};
}

Call DrawCast(Pool& pool, DType dtype) {
  const DType to = pool.random().Pick(AnyElement());
  const bool is_free = IsFloating(to) || to == DType::kBool || dtype == DType::kBool;
  const Operand x = is_free ? pool.Any(dtype) : pool.Between(dtype, IsUnsigned(to) ? 0 : -100, 100);
  return OpCall{{x.output}, {{"DstT", to}}};
}

Call DrawRange(Pool& pool, DType dtype) {
  const int64_t start = pool.random().Between(-3, 3), delta = pool.random().Pick<int64_t>({1, 2, -1, 3});
  const int64_t limit = start + delta * pool.random().Between(0, 4) + pool.random().Between(0, 1);
  const bool is_known_order = delta > 0 ? limit >= start : limit <= start;
  if (!is_known_order) return std::nullopt;
  return OpCall{{pool.Integer(start, dtype), pool.Integer(limit, dtype), pool.Integer(delta, dtype)}};
}

Call DrawFill(Pool& pool, DType dtype) {
  return OpCall{{pool.Integers(pool.AnyDims()), pool.OfRank(dtype, 0).output}};
}

Call DrawShapeN(Pool& pool, DType dtype) {
  std::vector<Output> inputs;
  for (int64_t count = 1 + pool.random().Below(3); count > 0; --count)
    inputs.push_back(pool.Any(dtype).output);
  return OpCall{{InputArg(inputs)}, {{"out_type", pool.random().Pick(Integers())}}};
}

Call DrawShapeOf(Pool& pool, DType dtype) {
  return OpCall{{pool.Any(dtype).output}, {{"out_type", pool.random().Pick(Integers())}}};
}

Call DrawIdentityN(Pool& pool, DType dtype) {
  std::vector<Output> inputs = {pool.Any(dtype).output};
  for (int64_t count = pool.random().Below(3); count > 0; --count) {
    inputs.push_back(pool.Any(pool.random().Pick(Anything())).output);
  }
  return OpCall{{InputArg(inputs)}};
}

Call DrawInvertPermutation(Pool& pool, DType dtype) {
  std::vector<int64_t> perm(pool.random().Between(1, 5));
  std::iota(perm.begin(), perm.end(), 0);
  pool.random().Shuffle(&perm);
  return OpCall{{pool.Integers(perm, dtype)}};
}

}  // namespace

int64_t SizeOf(const Index& dims) {
  int64_t size = 1;
  for (int64_t dim : dims) size *= dim;
  return size;
}

int64_t AnyAxis(Pool& pool, int rank) { return pool.random().Below(rank); }
int64_t MaybeFromBack(Pool& pool, int64_t axis, int rank) {
  return pool.random().Chance(30) ? axis - rank : axis;
}

void AddArrayRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 4) {
    rows->push_back({op, dtypes, draw, weight});
  };
  add("Identity", Anything(), OneOperand(), 14);
  add("StopGradient", Anything(), OneOperand(), 3);
  add("IdentityN", Anything(), DrawIdentityN, 3);
  add("CheckNumerics", Floats(), OneOperand({{"message", "checked"}}), 1);
  add("ZerosLike", Anything(), OneOperand(), 2);
  add("OnesLike", Anything(), OneOperand(), 2);
  add("Reshape", Anything(), DrawReshape, 8);
  add("Transpose", Anything(), DrawTranspose, 6);
  add("ExpandDims", Anything(), DrawExpandDims);
  add("Squeeze", Anything(), DrawSqueeze);
  add("ConcatV2", Anything(), DrawConcat, 6);
  add("Split", Anything(), DrawSplit, 5);
  add("SplitV", Anything(), DrawSplitV, 3);
  add("Roll", Anything(), DrawRoll, 2);
  add("EnsureShape", Anything(), DrawEnsureShape, 2);
  add("Snapshot", Anything(), OneOperand(), 1);
  add("BroadcastArgs", Integers(), DrawBroadcastArgs, 1);
  add("Pack", Anything(), DrawPack, 5);
  add("Unpack", Anything(), DrawUnpack, 5);
  add("Slice", Anything(), DrawSlice, 5);
  add("StridedSlice", Anything(), DrawStridedSlice, 8);
  add("Pad", Numbers(), DrawPad);
  add("Tile", Anything(), DrawTile);
  add("BroadcastTo", Anything(), DrawBroadcastTo);
  add("GatherV2", Anything(), DrawGather, 6);
  add("OneHot", Numbers(), DrawOneHot, 3);
  add("Select", Anything(), DrawSelect);
  add("SelectV2", Anything(), DrawSelectV2, 5);
  add("Where", Anything(), DrawWhere, 2);
  add("Cast", AnyElement(), DrawCast, 10);
  add("Range", Integers(), DrawRange, 2);
  add("Fill", Anything(), DrawFill, 3);
  add("Shape", Anything(), DrawShapeOf, 3);
  add("Size", Anything(), DrawShapeOf, 2);
  add("Rank", Anything(), OneOperand(), 2);
  add("ShapeN", Anything(), DrawShapeN, 2);
  add("InvertPermutation", Integers(), DrawInvertPermutation, 2);
}

}  // namespace weir::random_graphs
