// Diagonals of matrices.
#include <algorithm>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

Operand DrawMatrices(Pool& pool, DType dtype) {
  const auto fits = [](const Operand& operand) {
    return operand.rank() >= 2 && operand.rank() <= 4 && operand.value.size() > 0;
  };
  return pool.Draw(dtype, fits, [&] {
    Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Between(2, 3)));
    for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 1);
    return pool.Leaf(dtype, dims);
  });
}

// Diagonals low..high of matrices [rows, columns], and the dims of what holds them behind the batch.
struct Band {
  int64_t low, high;
  Index dims;
};

Band DrawBand(Pool& pool, int64_t rows, int64_t columns) {
  Band band;
  band.low = band.high = pool.random().Between(1 - rows, columns - 1);
  if (pool.random().Chance(50)) band.high = pool.random().Between(band.low, columns - 1);
  const int64_t length =
      std::min(rows + std::min<int64_t>(band.high, 0), columns - std::max<int64_t>(band.low, 0));
  if (band.low != band.high) band.dims.push_back(band.high - band.low + 1);
  band.dims.push_back(length);
  return band;
}

Output DrawK(Pool& pool, const Band& band) {
  if (band.low != band.high) return pool.Integers({band.low, band.high}, DType::kInt32);
  return pool.random().Chance(70) ? pool.Integer(band.low, DType::kInt32)
                                  : pool.Integers({band.low}, DType::kInt32);
}

AttrMap DrawAlign(Pool& pool, bool has_align) {
  if (!has_align) return {};
  return {
      {"align", pool.random().Pick<std::string>({"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"})}};
}

Index BatchOf(const Operand& matrices, const Index& behind) {
  Index dims(matrices.dims().begin(), matrices.dims().end() - 2);
  dims.insert(dims.end(), behind.begin(), behind.end());
  return dims;
}

int64_t RowsOf(const Operand& matrices) { return matrices.value.dim(matrices.rank() - 2); }
int64_t ColumnsOf(const Operand& matrices) { return matrices.value.dim(matrices.rank() - 1); }

Call DrawDiag(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  if (x.rank() > 2 || x.value.size() > 12) return std::nullopt;
  return OpCall{{x.output}};
}

Call DrawDiagPart(Pool& pool, DType dtype) {
  const auto fits = [](const Operand& operand) {
    return operand.rank() == 2 && operand.value.dim(0) == operand.value.dim(1);
  };
  const Operand x = pool.Draw(dtype, fits, [&] {
    Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Between(1, 2)));
    for (int64_t& dim : dims) dim = std::min<int64_t>(dim, 3);
    dims.insert(dims.end(), dims.begin(), dims.end());
    return pool.Leaf(dtype, dims);
  });
  return OpCall{{x.output}};
}

Call DrawBandPart(Pool& pool, DType dtype) {
  const Operand x = DrawMatrices(pool, dtype);
  const DType index = pool.random().Pick(Integers());
  const int64_t lower = pool.random().Between(-1, RowsOf(x)), upper = pool.random().Between(-1, ColumnsOf(x));
  return OpCall{{x.output, pool.Integer(lower, index), pool.Integer(upper, index)}};
}

Call DrawMatrixDiag(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  if (x.rank() > 4) return std::nullopt;
  return OpCall{{x.output}};
}

Call DrawMatrixDiagPart(Pool& pool, DType dtype) { return OpCall{{DrawMatrices(pool, dtype).output}}; }

Call DrawMatrixSetDiag(Pool& pool, DType dtype) {
  const Operand x = DrawMatrices(pool, dtype);
  const Index dims = BatchOf(x, {std::min(RowsOf(x), ColumnsOf(x))});
  return OpCall{{x.output, pool.OfShape(dtype, dims).output}};
}

DrawCall DrawBandOf(bool has_align) {
  return [has_align](Pool& pool, DType dtype) -> Call {
    const Operand x = DrawMatrices(pool, dtype);
    const Band band = DrawBand(pool, RowsOf(x), ColumnsOf(x));
    return OpCall{{x.output, DrawK(pool, band), pool.OfRank(dtype, 0).output}, DrawAlign(pool, has_align)};
  };
}

DrawCall DrawSetBand(bool has_align) {
  return [has_align](Pool& pool, DType dtype) -> Call {
    const Operand x = DrawMatrices(pool, dtype);
    const Band band = DrawBand(pool, RowsOf(x), ColumnsOf(x));
    return OpCall{{x.output, pool.OfShape(dtype, BatchOf(x, band.dims)).output, DrawK(pool, band)},
                  DrawAlign(pool, has_align)};
  };
}

DrawCall DrawFromBand(bool has_align) {
  return [has_align](Pool& pool, DType dtype) -> Call {
    const int64_t rows = pool.random().Between(1, 4), columns = pool.random().Between(1, 4);
    const Band band = DrawBand(pool, rows, columns);
    Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Below(2)));
    dims.insert(dims.end(), band.dims.begin(), band.dims.end());
    const Operand diagonals = pool.OfShape(dtype, dims);
    return OpCall{{diagonals.output, DrawK(pool, band), pool.Integer(rows, DType::kInt32),
                   pool.Integer(columns, DType::kInt32), pool.OfRank(dtype, 0).output},
                  DrawAlign(pool, has_align)};
  };
}

// Numbers that no rounding makes dependent: the diagonal is larger than all others of its row together.
Array WellConditioned(Pool& pool, Index dims) {
  Array matrices(std::move(dims));
  for (int64_t i = 0; i < matrices.size(); ++i) {
    const Index at = matrices.IndexOf(i);
    const double number = static_cast<double>(pool.random().Between(-4, 4)) / 8;
    const bool is_diagonal = at[at.size() - 2] == at.back();
    matrices[i] = is_diagonal ? number + (pool.random().Chance(50) ? 3 : -3) : number;
  }
  return matrices;
}

Call DrawQr(Pool& pool, DType dtype) {
  Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Below(2)));
  dims.insert(dims.end(), {pool.random().Between(1, 4), pool.random().Between(1, 4)});
  return OpCall{{pool.Exactly(WellConditioned(pool, dims), dtype)},
                {{"full_matrices", pool.random().Chance(50)}}};
}

Call DrawTriangularSolve(Pool& pool, DType dtype) {
  const Operand rhs = DrawMatrices(pool, dtype);
  Index dims = pool.random().Chance(50) ? BatchOf(rhs, {}) : Index();
  dims.insert(dims.end(), {RowsOf(rhs), RowsOf(rhs)});
  return OpCall{{pool.Exactly(WellConditioned(pool, dims), dtype), rhs.output},
                {{"lower", pool.random().Chance(50)}, {"adjoint", pool.random().Chance(50)}}};
}

}  // namespace

void AddMatrixRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 1) {
    rows->push_back({op, dtypes, draw, weight});
  };
  add("Diag", Numbers(), DrawDiag);
  add("DiagPart", Numbers(), DrawDiagPart);
  add("Qr", BigFloats(), DrawQr);
  add("MatrixTriangularSolve", BigFloats(), DrawTriangularSolve);
  add("MatrixBandPart", AnyElement(), DrawBandPart, 2);
  add("MatrixDiag", AnyElement(), DrawMatrixDiag);
  add("MatrixDiagPart", AnyElement(), DrawMatrixDiagPart);
  add("MatrixSetDiag", AnyElement(), DrawMatrixSetDiag);
  for (const bool has_align : {false, true}) {
    const std::string version = has_align ? "V3" : "V2";
    add("MatrixDiag" + version, AnyElement(), DrawFromBand(has_align));
    add("MatrixDiagPart" + version, AnyElement(), DrawBandOf(has_align));
    add("MatrixSetDiag" + version, AnyElement(), DrawSetBand(has_align));
  }
}

}  // namespace weir::random_graphs
