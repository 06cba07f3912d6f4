#include "kernels/cpu/math/spectral_decompositions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

namespace weir {
namespace {

using Complex = std::complex<double>;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMostSweeps = 60;      // of rotations over all pairs; a dozen are usual
constexpr int kMostIterations = 30;  // for each eigenvalue; two or three are usual

double Conj(double x) { return x; }
Complex Conj(Complex x) { return std::conj(x); }
double Norm(double x) { return x * x; }
double Norm(Complex x) { return std::norm(x); }
double Times(double a, double b) { return a * b; }
// Without a look for NaN.
Complex Times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// The sum of conj(a[i]) b[i]: several sums side by side, for one would wait for itself at each element.
constexpr int kSums = 8;
template <typename T>
T Dot(const T* a, const T* b, int64_t count) {
  T sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int k = 0; k < kSums; ++k) sums[k] += Times(Conj(a[i + k]), b[i + k]);
  for (; i < count; ++i) sums[0] += Times(Conj(a[i]), b[i]);
  return std::accumulate(sums, sums + kSums, T(0));
}
template <typename T>
double SumOfSquares(const T* a, int64_t count) {
  return std::real(Dot(a, a, count));
}
template <typename T>
void AddScaled(T factor, const T* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += Times(factor, from[i]);
}

// x / |x|, 1 for 0.
template <typename T>
T PhaseOf(T x) {
  const double size = std::abs(x);
  return size == 0 ? T(1) : x / size;
}

// (a, b) becomes (cosine a + sine b, -sine a + cosine b).
template <typename T>
void Rotate(T* a, T* b, int64_t count, double cosine, double sine) {
  for (int64_t i = 0; i < count; ++i) {
    const T old = a[i];
    a[i] = cosine * old + sine * b[i];
    b[i] = cosine * b[i] - sine * old;
  }
}

// The same with turn * b in place of b.
template <typename T>
void RotateTurned(T* a, T* b, int64_t count, T turn, double cosine, double sine) {
  if (turn == T(1)) return Rotate(a, b, count, cosine, sine);
  const T own = turn * cosine, other = turn * sine;
  for (int64_t i = 0; i < count; ++i) {
    const T old = a[i];
    a[i] = cosine * old + Times(other, b[i]);
    b[i] = Times(own, b[i]) - sine * old;
  }
}

template <typename T>
void SwapRows(T* rows, int64_t size, int64_t a, int64_t b) {
  std::swap_ranges(rows + a * size, rows + (a + 1) * size, rows + b * size);
}

// Sorts values, and the rows of all that is not null with them.
template <typename T>
void SortRows(double* values, int64_t count, bool is_descending, T* rows, int64_t size, T* others,
              int64_t other_size) {
  for (int64_t i = 0; i + 1 < count; ++i) {
    int64_t first = i;
    for (int64_t j = i + 1; j < count; ++j)
      if (is_descending ? values[j] > values[first] : values[j] < values[first]) first = j;
    if (first == i) continue;
    std::swap(values[i], values[first]);
    if (rows != nullptr) SwapRows(rows, size, i, first);
    if (others != nullptr) SwapRows(others, other_size, i, first);
  }
}

// ---- Hermitian matrices ----

// A Hermitian matrix becomes tridiagonal by reflections I - 2 v v*. Row i of `vectors` is the conjugate of
// row i of their product's adjoint, if it is not null.
template <typename T>
class Tridiagonalization {
 public:
  Tridiagonalization(T* a, int64_t n, T* vectors, T* room) : a_(a), n_(n), vectors_(vectors), room_(room) {}

  void Run(const Cancellation& cancellation) {
    for (int64_t i = 0; i < n_; ++i) {
      At(i, i) = T(std::real(At(i, i)));
      for (int64_t j = i + 1; j < n_; ++j) At(i, j) = Conj(At(j, i));
    }
    if (vectors_ != nullptr) {
      std::fill_n(vectors_, n_ * n_, T(0));
      for (int64_t i = 0; i < n_; ++i) vectors_[i * n_ + i] = T(1);
    }
    for (int64_t k = 0; k + 2 < n_ && !cancellation.is_cancelled(); ++k) Reflect(k);
  }

  // The tridiagonal matrix, made real by a factor of size 1 for each vector.
  void Read(double* diagonal, double* off_diagonal) {
    T phase = 1;
    for (int64_t i = 0; i < n_; ++i) {
      diagonal[i] = std::real(At(i, i));
      if (i > 0) {
        phase = Times(phase, PhaseOf(At(i, i - 1)));
        off_diagonal[i - 1] = std::abs(At(i, i - 1));
        if (vectors_ != nullptr)
          for (int64_t j = 0; j < n_; ++j) vectors_[i * n_ + j] = Times(phase, vectors_[i * n_ + j]);
      }
    }
    if (n_ > 0) off_diagonal[n_ - 1] = 0;
  }

 private:
  T& At(int64_t row, int64_t column) const { return a_[row * n_ + column]; }

  // Makes column k zero below the element under the diagonal, and row k with it.
  void Reflect(int64_t k) {
    const int64_t first = k + 1, size = n_ - first;
    T* const v = room_ + first;
    double below = 0;
    for (int64_t i = first; i < n_; ++i) {
      room_[i] = At(i, k);
      if (i > first) below += Norm(room_[i]);
    }
    if (below == 0) return;
    const double length = std::sqrt(below + Norm(v[0]));
    const T image = -PhaseOf(v[0]) * length;
    v[0] -= image;
    const double scale = 1 / std::sqrt(SumOfSquares(v, size));
    for (int64_t i = 0; i < size; ++i) v[i] *= scale;
    At(first, k) = image;
    At(k, first) = Conj(image);
    for (int64_t i = first + 1; i < n_; ++i) At(i, k) = At(k, i) = T(0);
    ReflectBothSides(first, size, v);
    if (vectors_ == nullptr) return;
    // vectors = (I - 2 v v*)^T vectors, the conjugate of what multiplies the product on its right.
    std::vector<T>& sums = sums_;
    sums.assign(n_, T(0));
    for (int64_t i = 0; i < size; ++i) AddScaled(v[i], vectors_ + (first + i) * n_, n_, sums.data());
    for (int64_t i = 0; i < size; ++i)
      AddScaled(-2.0 * Conj(v[i]), sums.data(), n_, vectors_ + (first + i) * n_);
  }

  // a - 2 v w* - 2 w v*, of w = a v - (v* a v) v.
  void ReflectBothSides(int64_t first, int64_t size, const T* v) {
    std::vector<T>& w = sums_;
    w.resize(n_);
    for (int64_t i = 0; i < size; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < size; ++j) sum += Times(At(first + i, first + j), v[j]);
      w[i] = sum;
    }
    AddScaled(T(-std::real(Dot(v, w.data(), size))), v, size, w.data());
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        At(first + i, first + j) -= 2.0 * (Times(v[i], Conj(w[j])) + Times(w[i], Conj(v[j])));
  }

  T* const a_;
  const int64_t n_;
  T* const vectors_;
  T* const room_;
  std::vector<T> sums_;
};

// One step of QR on rows [low, high] of a tridiagonal matrix without zeros beside its diagonal.
template <typename T>
void QrStep(int64_t low, int64_t high, double* d, double* e, T* vectors, int64_t n) {
  const double half = (d[high - 1] - d[high]) / 2, last = e[high - 1];
  const double shift = d[high] - last * (last / (half + std::copysign(std::hypot(half, last), half)));
  double x = d[low] - shift, z = e[low];
  for (int64_t k = low; k < high; ++k) {
    const double length = std::hypot(x, z);
    const double cosine = length == 0 ? 1 : x / length, sine = length == 0 ? 0 : z / length;
    if (k > low) e[k - 1] = length;
    const double first = d[k], second = d[k + 1], beside = e[k];
    d[k] = cosine * cosine * first + 2 * cosine * sine * beside + sine * sine * second;
    d[k + 1] = sine * sine * first - 2 * cosine * sine * beside + cosine * cosine * second;
    e[k] = cosine * sine * (second - first) + (cosine * cosine - sine * sine) * beside;
    if (k + 1 < high) {
      x = e[k];
      z = sine * e[k + 1];
      e[k + 1] *= cosine;
    }
    if (vectors != nullptr) Rotate(vectors + k * n, vectors + (k + 1) * n, n, cosine, sine);
  }
}

template <typename T>
bool DiagonalizeTridiagonal(int64_t n, double* d, double* e, T* vectors, const Cancellation& cancellation) {
  const auto is_split = [&](int64_t k) {
    return std::abs(e[k]) <= kEpsilon * (std::abs(d[k]) + std::abs(d[k + 1])) ||
           std::abs(e[k]) < std::numeric_limits<double>::min();
  };
  int64_t high = n - 1, iterations = 0;
  while (high > 0) {
    if (cancellation.is_cancelled()) return true;
    if (is_split(high - 1)) {
      e[high - 1] = 0;
      --high;
      iterations = 0;
      continue;
    }
    if (++iterations > kMostIterations) return false;
    int64_t low = high - 1;
    while (low > 0 && !is_split(low - 1)) --low;
    QrStep(low, high, d, e, vectors, n);
  }
  return true;
}

}  // namespace

template <typename T>
bool HermitianEigenvalues(T* a, int64_t n, bool wants_vectors, T* vectors, T* room, double* values,
                          double* off_diagonal, const Cancellation& cancellation) {
  T* const rows = wants_vectors ? vectors : nullptr;
  // The largest element becomes 1, so that no square overflows.
  double largest = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) largest = std::max(largest, std::abs(a[i * n + j]));
  const double scale = largest == 0 ? 1 : largest;
  for (int64_t i = 0; i < n * n; ++i) a[i] /= scale;
  Tridiagonalization<T> tridiagonalization(a, n, rows, room);
  tridiagonalization.Run(cancellation);
  tridiagonalization.Read(values, off_diagonal);
  const bool has_converged = DiagonalizeTridiagonal(n, values, off_diagonal, rows, cancellation);
  for (int64_t i = 0; i < n; ++i) values[i] *= scale;
  SortRows<T>(values, n, /*is_descending=*/false, rows, n, nullptr, 0);
  return has_converged;
}

template <typename T>
bool SingularValues(T* columns, int64_t count, int64_t length, T* right, double* values,
                    const Cancellation& cancellation) {
  double largest = 0;
  for (int64_t i = 0; i < count * length; ++i) largest = std::max(largest, std::abs(columns[i]));
  const double scale = largest == 0 ? 1 : largest;
  for (int64_t i = 0; i < count * length; ++i) columns[i] /= scale;
  if (right != nullptr) {
    std::fill_n(right, count * count, T(0));
    for (int64_t i = 0; i < count; ++i) right[i * count + i] = T(1);
  }
  // Two columns are orthogonal if their product is nothing beside their lengths. What is nothing beside the
  // whole matrix is not turned for ever.
  const double nothing = kEpsilon * kEpsilon * static_cast<double>(count);
  double* const squares = values;  // of the columns' lengths, kept up to date within a sweep
  bool is_done = false;
  for (int sweep = 0; sweep < kMostSweeps && !is_done; ++sweep) {
    is_done = true;
    for (int64_t i = 0; i < count; ++i) squares[i] = SumOfSquares(columns + i * length, length);
    for (int64_t p = 0; p < count; ++p) {
      if (cancellation.is_cancelled()) return true;
      for (int64_t q = p + 1; q < count; ++q) {
        T* const a = columns + p * length;
        T* const b = columns + q * length;
        const T ab = Dot(a, b, length);
        const double size = std::abs(ab);
        if (size <= 2 * kEpsilon * std::sqrt(squares[p]) * std::sqrt(squares[q]) || size <= nothing) continue;
        is_done = false;
        const T turn = Conj(ab / size);  // makes the product real
        const double zeta = (squares[q] - squares[p]) / (2 * size);
        const double tangent = std::copysign(1 / (std::abs(zeta) + std::hypot(1, zeta)), zeta);
        const double cosine = 1 / std::hypot(1, tangent), sine = -cosine * tangent;
        RotateTurned(a, b, length, turn, cosine, sine);
        squares[p] = std::max(0.0, squares[p] - tangent * size);
        squares[q] += tangent * size;
        if (right != nullptr) RotateTurned(right + p * count, right + q * count, count, turn, cosine, sine);
      }
    }
  }
  for (int64_t i = 0; i < count; ++i)
    values[i] = std::sqrt(SumOfSquares(columns + i * length, length)) * scale;
  for (int64_t i = 0; i < count * length; ++i) columns[i] *= scale;
  SortRows(values, count, /*is_descending=*/true, columns, length, right, count);
  return is_done;
}

template <typename T>
void CompleteOrthonormal(T* rows, int64_t count, const double* lengths, int64_t total, int64_t size, T* room,
                         const Cancellation& cancellation) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, lengths[i]);
  int64_t next_axis = 0;
  for (int64_t i = 0; i < total && !cancellation.is_cancelled(); ++i) {
    T* const row = rows + i * size;
    if (i < count && lengths[i] > kEpsilon * static_cast<double>(size) * largest) {
      for (int64_t k = 0; k < size; ++k) row[k] /= lengths[i];
      continue;
    }
    // The next axis that has something beside the rows before, taken away twice.
    for (bool is_found = false; !is_found && next_axis < size; ++next_axis) {
      if (cancellation.is_cancelled()) return;
      std::fill_n(room, size, T(0));
      room[next_axis] = T(1);
      for (int again = 0; again < 2; ++again)
        for (int64_t j = 0; j < i; ++j)
          AddScaled(-Dot(rows + j * size, room, size), rows + j * size, size, room);
      const double left = std::sqrt(SumOfSquares(room, size));
      is_found = left * std::sqrt(static_cast<double>(size)) > 0.5;
      if (!is_found) continue;
      for (int64_t k = 0; k < size; ++k) row[k] = room[k] / left;
    }
  }
}

#define WEIR_SPECTRAL(T)                                                                                   \
  template bool HermitianEigenvalues<T>(T*, int64_t, bool, T*, T*, double*, double*, const Cancellation&); \
  template bool SingularValues<T>(T*, int64_t, int64_t, T*, double*, const Cancellation&);                 \
  template void CompleteOrthonormal<T>(T*, int64_t, const double*, int64_t, int64_t, T*, const Cancellation&);
WEIR_SPECTRAL(double)
WEIR_SPECTRAL(Complex)
#undef WEIR_SPECTRAL

}  // namespace weir
