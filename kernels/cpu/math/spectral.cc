// SelfAdjointEigV2, Svd and MatrixSolveLs. Everything is computed in double; a matrix of a batch by one
// thread.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/math/each_matrix.h"
#include "kernels/cpu/math/spectral_decompositions.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// ---- SelfAdjointEigV2 ----

template <typename T>
class SelfAdjointEig final : public Kernel {
 public:
  explicit SelfAdjointEig(const KernelConstruction& construction)
      : wants_vectors_(construction.attr<bool>("compute_v")) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = WideOf<T>;
    const Tensor& input = context.input(0);
    const Shape& shape = input.shape();
    WEIR_ASSIGN_OR_RETURN(const int64_t n, SquareRows(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, AllocateBatch(context, 0, shape, {n}));
    Tensor* vectors = nullptr;
    if (wants_vectors_) {
      WEIR_ASSIGN_OR_RETURN(vectors, AllocateBatch(context, 1, shape, {n, n}));
    } else {
      WEIR_RETURN_IF_ERROR(AllocateUnwanted(context, 1));
    }
    if (n == 0) return absl::OkStatus();  // however many there are
    // The matrix, vectors, a vector, and two of real numbers.
    WEIR_ASSIGN_OR_RETURN(const int64_t room, RoomOf({{n, n}, {n, n}, {n, 3}}));
    return ForEachMatrix<Wide>(
        context, BatchOf(shape).num_elements(), CostOf(n, n, n) * (wants_vectors_ ? 9 : 2), room,
        [&](int64_t i, Wide* a) -> absl::Status {
          Wide* const v = a + n * n;
          Wide* const row = v + n * n;
          auto* const e = reinterpret_cast<double*>(row + n);
          auto* const beside = reinterpret_cast<double*>(row + 2 * n);
          const T* const from = input.flat<T>().data() + i * n * n;
          std::transform(from, from + n * n, a, [](T x) { return static_cast<Wide>(x); });
          if (!IsLowerTriangleFinite(a, n) ||
              !HermitianEigenvalues<Wide>(a, n, wants_vectors_, v, row, e, beside, context.cancellation())) {
            return absl::InvalidArgumentError(
                "Self-adjoint eigen decomposition was not successful. The input might not be valid.");
          }
          for (int64_t k = 0; k < n; ++k) values->flat<T>()[i * n + k] = NarrowedTo<T>(e[k]);
          for (int64_t k = 0; wants_vectors_ && k < n * n; ++k)
            vectors->flat<T>()[i * n * n + k] = NarrowedTo<T>(v[k % n * n + k / n]);
          return absl::OkStatus();
        });
  }

 private:
  template <typename Wide>
  static bool IsLowerTriangleFinite(const Wide* a, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j)
        if (!IsFinite(a[i * n + j])) return false;
    return true;
  }

  const bool wants_vectors_;
};

// ---- Svd ----

// The decomposition of one matrix, in room that is given: of a wide matrix that of its adjoint.
template <typename Wide>
class OneSvd {
 public:
  // Wanted numbers of left and right vectors.
  OneSvd(int64_t rows, int64_t columns, bool wants_vectors, bool is_full)
      : is_wide_(columns > rows),
        count_(std::min(rows, columns)),
        length_(std::max(rows, columns)),
        long_total_(is_full ? length_ : count_),
        wants_vectors_(wants_vectors) {}

  absl::StatusOr<int64_t> Room() const {
    return RoomOf({{long_total_, length_}, {wants_vectors_ ? count_ : 0, count_}, {count_, 1}, {length_, 1}});
  }

  // Takes the room, and the matrix row by row. False when its numbers are not finite, or nothing converged.
  template <typename T>
  bool Run(const T* matrix, Wide* room, const Cancellation& cancellation) {
    longs_ = room;
    shorts_ = wants_vectors_ ? longs_ + long_total_ * length_ : nullptr;
    values_ =
        reinterpret_cast<double*>(longs_ + long_total_ * length_ + (wants_vectors_ ? count_ * count_ : 0));
    Wide* const scratch = reinterpret_cast<Wide*>(values_) + count_;
    for (int64_t i = 0; i < count_; ++i) {
      for (int64_t k = 0; k < length_; ++k) {
        const auto x = static_cast<Wide>(is_wide_ ? matrix[i * length_ + k] : matrix[k * count_ + i]);
        if (!IsFinite(x)) return false;
        longs_[i * length_ + k] = is_wide_ ? Conjugate(x) : x;
      }
    }
    if (!SingularValues<Wide>(longs_, count_, length_, shorts_, values_, cancellation)) return false;
    if (wants_vectors_)
      CompleteOrthonormal<Wide>(longs_, count_, values_, long_total_, length_, scratch, cancellation);
    return true;
  }

  double value(int64_t i) const { return values_[i]; }
  // Element k of left or right singular vector i.
  Wide left(int64_t i, int64_t k) const {
    return is_wide_ ? shorts_[i * count_ + k] : longs_[i * length_ + k];
  }
  Wide right(int64_t i, int64_t k) const {
    return is_wide_ ? longs_[i * length_ + k] : shorts_[i * count_ + k];
  }

 private:
  const bool is_wide_;
  const int64_t count_, length_, long_total_;
  const bool wants_vectors_;
  Wide* longs_ = nullptr;   // singular vectors of the longer side
  Wide* shorts_ = nullptr;  // and of the shorter one
  double* values_ = nullptr;
};

// About a dozen sweeps over all pairs of columns.
double SvdCost(int64_t rows, int64_t columns) {
  const int64_t count = std::min(rows, columns);
  return 40 * CostOf(count, count, std::max(rows, columns) + count);
}

template <typename T>
class Svd final : public Kernel {
 public:
  explicit Svd(const KernelConstruction& construction)
      : wants_vectors_(construction.attr<bool>("compute_uv")),
        is_full_(construction.attr<bool>("full_matrices")) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = WideOf<T>;
    const Tensor& input = context.input(0);
    const Shape& shape = input.shape();
    WEIR_RETURN_IF_ERROR(CheckRank(input, 0));
    const int64_t rows = RowsOf(shape), columns = ColumnsOf(shape), count = std::min(rows, columns);
    const int64_t lefts = is_full_ ? rows : count, rights = is_full_ ? columns : count;
    WEIR_ASSIGN_OR_RETURN(Tensor * s, AllocateBatch(context, 0, shape, {count}));
    Tensor *u = nullptr, *v = nullptr;
    if (wants_vectors_) {
      WEIR_ASSIGN_OR_RETURN(u, AllocateBatch(context, 1, shape, {rows, lefts}));
      WEIR_ASSIGN_OR_RETURN(v, AllocateBatch(context, 2, shape, {columns, rights}));
    } else {
      WEIR_RETURN_IF_ERROR(AllocateUnwanted(context, 1));
      WEIR_RETURN_IF_ERROR(AllocateUnwanted(context, 2));
    }
    const bool has_vectors = wants_vectors_ && u->num_elements() + v->num_elements() > 0;
    if (s->num_elements() == 0 && !has_vectors) return absl::OkStatus();  // however many there are
    OneSvd<Wide> sizes(rows, columns, wants_vectors_, is_full_ && wants_vectors_);
    WEIR_ASSIGN_OR_RETURN(const int64_t room, sizes.Room());
    const auto nan = NarrowedTo<T>(Wide(std::numeric_limits<double>::quiet_NaN()));
    return ForEachMatrix<Wide>(context, BatchOf(shape).num_elements(), SvdCost(rows, columns), room,
                               [&](int64_t i, Wide* own) -> absl::Status {
                                 OneSvd<Wide> svd(rows, columns, wants_vectors_, is_full_ && wants_vectors_);
                                 const bool is_good = svd.Run(input.flat<T>().data() + i * rows * columns,
                                                              own, context.cancellation());
                                 for (int64_t k = 0; k < count; ++k)
                                   s->flat<T>()[i * count + k] = is_good ? NarrowedTo<T>(svd.value(k)) : nan;
                                 if (!wants_vectors_) return absl::OkStatus();
                                 T* const to_u = u->flat<T>().data() + i * rows * lefts;
                                 for (int64_t k = 0; k < rows * lefts; ++k)
                                   to_u[k] = is_good ? NarrowedTo<T>(svd.left(k % lefts, k / lefts)) : nan;
                                 T* const to_v = v->flat<T>().data() + i * columns * rights;
                                 for (int64_t k = 0; k < columns * rights; ++k)
                                   to_v[k] = is_good ? NarrowedTo<T>(svd.right(k % rights, k / rights)) : nan;
                                 return absl::OkStatus();
                               });
  }

 private:
  const bool wants_vectors_, is_full_;
};

// ---- MatrixSolveLs ----

// The solution of least size, by singular values: those that are nothing beside the largest count as none,
// with `fast` as an error where no regularizer helps. TensorFlow's fast way, by the normal equations, gives
// the same with half of the digits.
template <typename T>
class MatrixSolveLs final : public Kernel {
 public:
  explicit MatrixSolveLs(const KernelConstruction& construction)
      : is_fast_(construction.attr<bool>("fast")) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = WideOf<T>;
    const Shape &a = context.input(0).shape(), &b = context.input(1).shape();
    WEIR_RETURN_IF_ERROR(CheckEquations(context));
    WEIR_ASSIGN_OR_RETURN(const double l2, ReadRegularizer(context.input(2)));
    const int64_t rows = RowsOf(a), columns = ColumnsOf(a), sides = ColumnsOf(b);
    WEIR_ASSIGN_OR_RETURN(Tensor * x, AllocateBatch(context, 0, a, {columns, sides}));
    std::fill_n(x->flat<T>().data(), x->num_elements(), T(0));
    if (rows == 0 || x->num_elements() == 0) return absl::OkStatus();
    OneSvd<Wide> sizes(rows, columns, true, false);
    WEIR_ASSIGN_OR_RETURN(int64_t room, sizes.Room());
    WEIR_ASSIGN_OR_RETURN(room, RoomOf({{room, 1}, {columns, sides}}));
    const double cost = SvdCost(rows, columns) + CostOf(rows + columns, sides, std::min(rows, columns));
    return ForEachMatrix<Wide>(
        context, BatchOf(a).num_elements(), cost, room, [&](int64_t i, Wide* own) -> absl::Status {
          OneSvd<Wide> svd(rows, columns, true, false);
          Wide* const sum = own + room - columns * sides;
          std::fill_n(sum, columns * sides, Wide(0));
          const T* const matrix = context.input(0).flat<T>().data() + i * rows * columns;
          if (!AreFinite(matrix, rows * columns)) {
            // As TensorFlow has it: of such a matrix the fast way makes NaN, the other one that all its
            // singular values are nothing.
            if (is_fast_)
              std::fill_n(x->flat<T>().data() + i * columns * sides, columns * sides, NotANumber());
            return absl::OkStatus();
          }
          if (!svd.Run(matrix, own, context.cancellation())) return RankDeficient();
          const T* const right = context.input(1).flat<T>().data() + i * rows * sides;
          for (int64_t k = 0; k < std::min(rows, columns); ++k) {
            const bool is_null = svd.value(k) <= Threshold(rows, columns) * svd.value(0);
            if (is_null && is_fast_ && l2 == 0) return RankDeficient();
            if (is_null) continue;
            AddDirection(svd, k, is_fast_ ? l2 : 0, right, rows, columns, sides, sum);
          }
          for (int64_t k = 0; k < columns * sides; ++k)
            x->flat<T>()[i * columns * sides + k] = NarrowedTo<T>(sum[k]);
          return absl::OkStatus();
        });
  }

 private:
  static absl::Status RankDeficient() {
    return absl::InvalidArgumentError(
        "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide an "
        "l2_regularizer > 0.");
  }

  static T NotANumber() { return NarrowedTo<T>(WideOf<T>(std::numeric_limits<double>::quiet_NaN())); }
  static bool AreFinite(const T* numbers, int64_t count) {
    return std::all_of(numbers, numbers + count, [](T x) { return IsFinite(static_cast<WideOf<T>>(x)); });
  }

  // What a number of type T cannot tell from 0 beside 1, for a matrix of this size.
  static double Threshold(int64_t rows, int64_t columns) {
    using Real = decltype(std::abs(T()));
    return static_cast<double>(std::numeric_limits<Real>::epsilon()) *
           static_cast<double>(std::max(rows, columns));
  }

  // sum += v s / (s^2 + l2) u* b, for singular value k.
  template <typename Wide>
  static void AddDirection(const OneSvd<Wide>& svd, int64_t k, double l2, const T* right, int64_t rows,
                           int64_t columns, int64_t sides, Wide* sum) {
    const double s = svd.value(k), factor = s / (s * s + l2);
    for (int64_t c = 0; c < sides; ++c) {
      Wide part = 0;
      for (int64_t r = 0; r < rows; ++r)
        part += Conjugate(svd.left(k, r)) * static_cast<Wide>(right[r * sides + c]);
      part *= factor;
      for (int64_t r = 0; r < columns; ++r) sum[r * sides + c] += svd.right(k, r) * part;
    }
  }

  static absl::Status CheckEquations(const KernelContext& context) {
    const Shape &a = context.input(0).shape(), &b = context.input(1).shape();
    WEIR_RETURN_IF_ERROR(CheckRank(context.input(0), 0));
    WEIR_RETURN_IF_ERROR(CheckRank(context.input(1), 1));
    const auto differ = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " They are ", a.ToString(), " and ", b.ToString()));
    };
    if (a.rank() != b.rank()) return differ("All input tensors must have the same rank.");
    if (BatchOf(a) != BatchOf(b)) return differ("All input tensors must have the same outer dimensions.");
    if (RowsOf(a) != RowsOf(b)) return differ("Input matrix and rhs are incompatible.");
    return absl::OkStatus();
  }

  static absl::StatusOr<double> ReadRegularizer(const Tensor& l2) {
    if (!l2.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("l2_regularizer must be scalar, got shape ", l2.shape().ToString()));
    }
    if (l2.scalar<double>() >= 0) return l2.scalar<double>();
    return absl::InvalidArgumentError(
        absl::StrCat("l2_regularizer must be >= 0. It is ", l2.scalar<double>()));
  }

  const bool is_fast_;
};

}  // namespace

void RegisterSpectralKernels(DeviceKernels& kernels) {
  const Types<float, double, std::complex<float>, std::complex<double>> types("T");
  kernels.Add<SelfAdjointEig>("SelfAdjointEigV2", types);
  kernels.Add<Svd>("Svd", types);
  kernels.Add<MatrixSolveLs>("MatrixSolveLs", types);
}

}  // namespace weir
