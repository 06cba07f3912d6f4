// BandedTriangularSolve: x of A x = b for triangular matrices A of which a few diagonals are given, by
// substitution, row after row.
#include <algorithm>
#include <complex>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/each_matrix.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// A triangular matrix [rows, rows] by its diagonals [bands, rows]: element i of a diagonal is that in row i.
// Of a lower triangle the main diagonal is the first one, of an upper triangle the last one.
template <typename T>
struct BandedTriangle {
  // Precondition: the element is on one of the diagonals.
  T At(int64_t i, int64_t j) const {
    const int64_t row = is_adjoint ? j : i, column = is_adjoint ? i : j;
    const int64_t band = is_lower ? row - column : bands - 1 - (column - row);
    const T value = data[band * rows + row];
    return is_adjoint ? elementwise::Conj()(value) : value;
  }

  const T* data;
  int64_t bands, rows;
  bool is_lower, is_adjoint;
};

// x holds b [rows, columns] and becomes the solution.
template <typename T>
void Substitute(const BandedTriangle<T>& a, int64_t columns, T* x, const Cancellation& cancellation) {
  const bool goes_down = a.is_lower != a.is_adjoint;
  for (int64_t step = 0; step < a.rows; ++step) {
    const int64_t i = goes_down ? step : a.rows - 1 - step;
    T* const row = x + i * columns;
    for (int64_t back = 1; back < a.bands && back <= step; ++back) {
      if (cancellation.is_cancelled()) return;
      const int64_t j = goes_down ? i - back : i + back;
      const T factor = a.At(i, j);
      for (int64_t c = 0; c < columns; ++c) row[c] -= factor * x[j * columns + c];
    }
    if (cancellation.is_cancelled()) return;
    const T diagonal = a.At(i, i);
    for (int64_t c = 0; c < columns; ++c) row[c] /= diagonal;
  }
}

template <typename T>
class BandedTriangularSolve final : public Kernel {
 public:
  explicit BandedTriangularSolve(const KernelConstruction& construction)
      : is_lower_(construction.attr<bool>("lower")), is_adjoint_(construction.attr<bool>("adjoint")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &a = context.input(0), &b = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Shape batch, CheckShapes(a, b));
    const int64_t bands = RowsOf(a.shape()), rows = ColumnsOf(a.shape()), columns = ColumnsOf(b.shape());
    WEIR_RETURN_IF_ERROR(CheckDiagonals(a, bands, rows));
    Dims dims(batch.dims().begin(), batch.dims().end());
    dims.insert(dims.end(), {rows, columns});
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const BroadcastBatch of_a(BatchOf(a.shape()), batch), of_b(BatchOf(b.shape()), batch);
    context.threads().ParallelFor(
        batch.num_elements(), CostOf(bands, rows, columns), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            T* const to = output->flat<T>().data() + i * rows * columns;
            std::copy_n(b.flat<T>().data() + of_b.MatrixOf(i) * rows * columns, rows * columns, to);
            const T* const matrix = a.flat<T>().data() + of_a.MatrixOf(i) * bands * rows;
            Substitute<T>({matrix, bands, rows, is_lower_, is_adjoint_}, columns, to, context.cancellation());
          }
        });
    return context.cancellation().is_cancelled() ? context.cancellation().reason() : absl::OkStatus();
  }

 private:
  // The batch of the result.
  static absl::StatusOr<Shape> CheckShapes(const Tensor& a, const Tensor& b) {
    for (const int i : {0, 1}) {
      const Tensor& tensor = i == 0 ? a : b;
      if (tensor.shape().rank() < 2) {
        return absl::InvalidArgumentError(
            absl::StrCat("In[", i, "] ndims must be >= 2: ", tensor.shape().rank()));
      }
      if (tensor.num_elements() == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("In[", i, "] must not be an empty tensor, is ", tensor.shape().ToString()));
      }
    }
    const int64_t bands = RowsOf(a.shape()), rows = ColumnsOf(a.shape());
    if (rows != RowsOf(b.shape())) {
      return absl::InvalidArgumentError(absl::StrCat("In[0] mismatch In[1] shape: ", rows, " vs. ",
                                                     RowsOf(b.shape()), ": ", a.shape().ToString(), " ",
                                                     b.shape().ToString()));
    }
    if (bands > rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("Number of bands ", bands, " cannot exceed the size of the matrix ", rows));
    }
    const Shape a_batch = BatchOf(a.shape()), b_batch = BatchOf(b.shape());
    absl::StatusOr<Shape> batch = BroadcastShapes({&a_batch, &b_batch});
    if (batch.ok()) return batch;
    return absl::InvalidArgumentError(absl::StrCat("In[0] and In[1] must have compatible batch dimensions: ",
                                                   a.shape().ToString(), " vs. ", b.shape().ToString()));
  }

  absl::Status CheckDiagonals(const Tensor& a, int64_t bands, int64_t rows) const {
    const int64_t size = bands * rows;
    for (int64_t begin = is_lower_ ? 0 : size - rows; begin < a.num_elements(); begin += size) {
      const T* const diagonal = a.flat<T>().data() + begin;
      if (std::find(diagonal, diagonal + rows, T(0)) == diagonal + rows) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Input matrix is not invertible. Its diagonal has a 0, matrix is ", a.ToString(8)));
    }
    return absl::OkStatus();
  }

  const bool is_lower_, is_adjoint_;
};

}  // namespace

void RegisterBandedTriangularSolveKernels(DeviceKernels& kernels) {
  kernels.Add<BandedTriangularSolve>("BandedTriangularSolve",
                                     Types<float, double, std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
