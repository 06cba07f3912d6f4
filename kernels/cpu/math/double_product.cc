// MultiplyDouble, compiled once per instruction set.
//
// Implementation notes. The result is computed in tiles of kTileRows rows and one panel of kVectors vectors
// of columns, each by one thread. A tile walks along the inner dimension in steps of kDepth: it copies that
// part of b's panel into one dense piece (24 to 48 KiB, which stays in the first-level cache) and multiplies
// four rows of a at a time, whose sums stay in registers. oneDNN, which does this for float, has no double.
#include <algorithm>
#include <cstdint>

// The middle x86 targets gain nothing here over SSE2 and AVX2; vectors of unknown size cannot stand in
// arrays.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/math/double_product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/math/matrix_product.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::ScalableTag<double>;

constexpr int kVectors = 3;
constexpr int64_t kTileRows = 64;
constexpr int64_t kDepth = 256;
constexpr int64_t kPanelColumns = kVectors * static_cast<int64_t>(hn::MaxLanes(Lanes()));

// A matrix in memory: element (i, j) is at data[i * row + j * column].
struct Strided {
  const double* data;
  int64_t row;
  int64_t column;
};

// panel[depth][kPanelColumns] = rows of b, columns beyond `columns` as 0.
void CopyPanel(const Strided& b, int64_t depth, int64_t columns, double* panel) {
  for (int64_t l = 0; l < depth; ++l, panel += kPanelColumns) {
    for (int64_t j = 0; j < columns; ++j) panel[j] = b.data[l * b.row + j * b.column];
    std::fill(panel + columns, panel + kPanelColumns, 0.0);
  }
}

// c[kRows][columns] (+)= the product of kRows rows of a, `depth` elements each, and the panel.
template <int kRows>
HWY_INLINE void MultiplyRows(const Strided& a, const double* panel, int64_t depth, int64_t columns, bool adds,
                             double* c, int64_t c_row) {
  const Lanes d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Lanes> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t l = 0; l < depth; ++l) {
    const double* const factors = a.data + l * a.column;
    const double* const row = panel + l * kPanelColumns;
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, factors[r * a.row]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(factor, hn::LoadU(d, row + v * lanes), sums[r][v]);
      }
    }
  }
  HWY_ALIGN double row_sums[kPanelColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::Store(sums[r][v], d, row_sums + v * lanes);
    double* const to = c + r * c_row;
    for (int64_t j = 0; j < columns; ++j) to[j] = adds ? to[j] + row_sums[j] : row_sums[j];
  }
}

int64_t NumPanels(const ProductShape& shape) { return (shape.n + kPanelColumns - 1) / kPanelColumns; }
int64_t NumTiles(const ProductShape& shape) {
  return (shape.m + kTileRows - 1) / kTileRows * NumPanels(shape);
}

void MultiplyTile(const ProductShape& shape, const double* a_data, const double* b_data, int64_t tile,
                  double* c) {
  const int64_t row = tile / NumPanels(shape) * kTileRows, column = tile % NumPanels(shape) * kPanelColumns;
  const Strided a = {a_data, shape.transpose_a ? 1 : shape.k, shape.transpose_a ? shape.m : 1};
  const Strided b = {b_data, shape.transpose_b ? 1 : shape.n, shape.transpose_b ? shape.k : 1};
  const int64_t end = std::min(shape.m, row + kTileRows), columns = std::min(kPanelColumns, shape.n - column);
  HWY_ALIGN double panel[kDepth * kPanelColumns];
  for (int64_t from = 0; from < shape.k; from += kDepth) {
    const int64_t depth = std::min(kDepth, shape.k - from);
    CopyPanel({b.data + from * b.row + column * b.column, b.row, b.column}, depth, columns, panel);
    const auto rows_of_a = [&](int64_t i) {
      return Strided{a.data + i * a.row + from * a.column, a.row, a.column};
    };
    int64_t i = row;
    for (; i + 4 <= end; i += 4) {
      MultiplyRows<4>(rows_of_a(i), panel, depth, columns, from > 0, c + i * shape.n + column, shape.n);
    }
    for (; i < end; ++i) {
      MultiplyRows<1>(rows_of_a(i), panel, depth, columns, from > 0, c + i * shape.n + column, shape.n);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {

HWY_EXPORT(MultiplyTile);
HWY_EXPORT(NumTiles);

absl::Status MultiplyDouble(const TimelyThreads& threads, const ProductShape& shape, const double* a,
                            const double* b, double* c) {
  constexpr double kOperationsPerNanosecond = 15;
  // Too few rows to pay for the copies of b's panels.
  if (shape.m < 4 && !shape.transpose_b) return MultiplyPlain(threads, shape, a, b, c);
  if (shape.m == 0 || shape.n == 0) return absl::OkStatus();
  if (shape.k == 0) {
    std::fill_n(c, shape.m * shape.n, 0.0);
    return absl::OkStatus();
  }
  const int64_t tiles = HWY_DYNAMIC_DISPATCH(NumTiles)(shape);
  const double operations =
      2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.k) * static_cast<double>(shape.n);
  return ParallelForInTime(threads, tiles, operations / kOperationsPerNanosecond / static_cast<double>(tiles),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t tile = begin; tile < end; ++tile) {
                               HWY_DYNAMIC_DISPATCH(MultiplyTile)(shape, a, b, tile, c);
                             }
                           });
}

}  // namespace weir
#endif  // HWY_ONCE
