#include "kernels/cpu/math/matrix_product.h"

#include <algorithm>
#include <atomic>
#include <complex>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/onednn.h"

namespace weir {
namespace {

// Pieces of a split product begin at multiples of this, the rows or columns of sgemm's register tiles.
constexpr int64_t kGrain = 16;
constexpr double kFloatOperationsPerNanosecond = 60;
constexpr double kPlainOperationsPerNanosecond = 3;

double Operations(const ProductShape& shape) {
  return 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.k) * static_cast<double>(shape.n);
}

// Some rows and columns of a product.
struct Block {
  int64_t row, rows, column, columns;
};

dnnl_status_t MultiplyBlock(const ProductShape& whole, const Block& block, const float* a, const float* b,
                            float* c) {
  const int64_t lda = whole.transpose_a ? whole.m : whole.k;
  const int64_t ldb = whole.transpose_b ? whole.k : whole.n;
  const SingleThreadedOneDnn single_threaded;
  return dnnl_sgemm(whole.transpose_a ? 'T' : 'N', whole.transpose_b ? 'T' : 'N', block.rows, block.columns,
                    whole.k, 1.0f, a + (whole.transpose_a ? block.row : block.row * lda), lda,
                    b + (whole.transpose_b ? block.column * ldb : block.column), ldb, 0.0f,
                    c + block.row * whole.n + block.column, whole.n);
}

}  // namespace

absl::Status MultiplyFloat(const TimelyThreads& threads, const ProductShape& shape, const float* a,
                           const float* b, float* c) {
  return MultiplyFloat(threads, shape, a, b, c, [](int64_t, int64_t, int64_t, int64_t) {});
}

absl::Status MultiplyFloat(const TimelyThreads& threads, const ProductShape& shape, const float* a,
                           const float* b, float* c, FinishPiece finish) {
  if (shape.m == 0 || shape.n == 0) return absl::OkStatus();
  if (shape.k == 0) {
    std::fill_n(c, shape.m * shape.n, 0.0f);
    finish(0, shape.m, 0, shape.n);
    return absl::OkStatus();
  }
  // The longer side is split, so that what all pieces read (and pack) again is the smaller matrix.
  const bool split_rows = shape.m >= shape.n;
  const int64_t side = split_rows ? shape.m : shape.n;
  const int64_t grains = (side + kGrain - 1) / kGrain;
  std::atomic<dnnl_status_t> status{dnnl_success};
  const auto multiply = [&](const Block& block) {
    if (threads.is_over()) return;
    const dnnl_status_t result = MultiplyBlock(shape, block, a, b, c);
    if (result != dnnl_success) {
      status = result;
    } else {
      finish(block.row, block.rows, block.column, block.columns);
    }
  };
  threads.threads().ParallelFor(
      grains, Operations(shape) / kFloatOperationsPerNanosecond / static_cast<double>(grains),
      [&](int64_t begin, int64_t end) {
        const int64_t first = begin * kGrain, count = std::min(end * kGrain, side) - first;
        // Not in smaller blocks, however long they take: sgemm rounds otherwise then.
        multiply(split_rows ? Block{first, count, 0, shape.n} : Block{0, shape.m, first, count});
      });
  if (!threads.status().ok()) return threads.status();
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_out_of_memory) return absl::ResourceExhaustedError("oneDNN: out of memory in sgemm");
  return absl::InternalError(absl::StrCat("oneDNN: sgemm failed with status ", static_cast<int>(status)));
}

namespace {

// Signed integers are multiplied as unsigned ones: overflow then wraps instead of being undefined. Products
// of 16-bit types would be promoted to (signed) int, so they are computed in 32 bits.
template <typename T>
struct Accumulator {
  using Type = T;
};
template <typename T>
requires std::is_integral_v<T>
struct Accumulator<T> {
  using Type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};

// The [rows, columns] matrix at `source` transposed, so that the product's inner loop runs along memory.
template <typename T>
std::vector<T> Transposed(const T* source, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 32;
  std::vector<T> result(rows * columns);
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c)
          result[c * rows + r] = source[r * columns + c];
      }
    }
  }
  return result;
}

// sum[0, count) += factor * row[0, count)
template <typename Sum, typename T>
void AddMultiple(int64_t count, Sum factor, const T* __restrict row, Sum* __restrict sum) {
  for (int64_t j = 0; j < count; ++j) sum[j] += factor * static_cast<Sum>(row[j]);
}

}  // namespace

template <typename T>
absl::Status MultiplyPlain(const TimelyThreads& threads, const ProductShape& shape, const T* a, const T* b,
                           T* c) {
  using Sum = typename Accumulator<T>::Type;
  constexpr int64_t kColumns = 256;  // of sums kept in the first-level cache
  std::vector<T> b_transposed;
  if (shape.transpose_b) {
    b_transposed = Transposed(b, shape.n, shape.k);
    b = b_transposed.data();
  }
  const int64_t row_stride = shape.transpose_a ? 1 : shape.k;
  const int64_t inner_stride = shape.transpose_a ? shape.m : 1;
  const double row_cost = 2.0 * static_cast<double>(shape.k) * static_cast<double>(shape.n);
  threads.threads().ParallelFor(
      shape.m, row_cost / kPlainOperationsPerNanosecond, [&](int64_t begin, int64_t end) {
        Sum sums[kColumns];
        for (int64_t j = 0; j < shape.n; j += kColumns) {
          const int64_t count = std::min(kColumns, shape.n - j);
          for (int64_t i = begin; i < end; ++i) {
            if (threads.is_over()) return;
            std::fill_n(sums, count, Sum());
            const T* row = a + i * row_stride;
            for (int64_t l = 0; l < shape.k; ++l) {
              AddMultiple(count, static_cast<Sum>(row[l * inner_stride]), b + l * shape.n + j, sums);
            }
            for (int64_t x = 0; x < count; ++x) c[i * shape.n + j + x] = static_cast<T>(sums[x]);
          }
        }
      });
  return threads.status();
}

#define WEIR_INSTANTIATE(T) \
  template absl::Status MultiplyPlain<T>(const TimelyThreads&, const ProductShape&, const T*, const T*, T*);
WEIR_INSTANTIATE(double)
WEIR_INSTANTIATE(int8_t)
WEIR_INSTANTIATE(int16_t)
WEIR_INSTANTIATE(int32_t)
WEIR_INSTANTIATE(int64_t)
WEIR_INSTANTIATE(uint8_t)
WEIR_INSTANTIATE(uint16_t)
WEIR_INSTANTIATE(uint32_t)
WEIR_INSTANTIATE(uint64_t)
WEIR_INSTANTIATE(std::complex<float>)
WEIR_INSTANTIATE(std::complex<double>)
#undef WEIR_INSTANTIATE

}  // namespace weir
