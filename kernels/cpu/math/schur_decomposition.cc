#include "kernels/cpu/math/schur_decomposition.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir {
namespace {

using Complex = std::complex<double>;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMostIterations = 60;  // for each eigenvalue; two or three are usual
constexpr int kMostRoots = 100;      // a dozen bring any double near 1
constexpr double kLarge = 1e10;  // of elements of a vector: products with a matrix stay far below infinity
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double LargestOf(const Complex* a, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max({largest, std::abs(a[i].real()), std::abs(a[i].imag())});
  return largest;
}

// a = (1 - 2 v v*) a (1 - 2 v v*) for v of length 1 that begins at row `from`, and u = u (1 - 2 v v*).
void Reflect(Complex* a, Complex* u, int64_t n, int64_t from, const Complex* v) {
  for (int64_t j = 0; j < n; ++j) {
    Complex sum = 0;
    for (int64_t i = from; i < n; ++i) sum += std::conj(v[i]) * a[i * n + j];
    sum *= 2;
    for (int64_t i = from; i < n; ++i) a[i * n + j] -= v[i] * sum;
  }
  for (Complex* const matrix : {a, u}) {
    for (int64_t i = 0; i < n; ++i) {
      Complex sum = 0;
      for (int64_t j = from; j < n; ++j) sum += matrix[i * n + j] * v[j];
      sum *= 2;
      for (int64_t j = from; j < n; ++j) matrix[i * n + j] -= sum * std::conj(v[j]);
    }
  }
}

// Zeros below the first diagonal under the main one. `v` has room for a column.
void ReduceToHessenberg(Complex* a, Complex* u, int64_t n, Complex* v, const Cancellation& cancellation) {
  for (int64_t k = 0; k + 2 < n && !cancellation.is_cancelled(); ++k) {
    double largest = 0;
    for (int64_t i = k + 2; i < n; ++i) largest = std::max(largest, LargestOf(a + i * n + k, 1));
    if (largest == 0) continue;
    // Squares of small numbers would lose their digits: v is made of a column whose largest number is 1.
    largest = std::max(largest, LargestOf(a + (k + 1) * n + k, 1));
    for (int64_t i = k + 1; i < n; ++i) v[i] = a[i * n + k] / largest;
    double below = 0;
    for (int64_t i = k + 2; i < n; ++i) below += std::norm(v[i]);
    const Complex first = v[k + 1];
    const double length = std::sqrt(below + std::norm(first));
    const Complex phase = first == Complex(0) ? Complex(1) : first / std::abs(first);
    const double size = std::sqrt(below + std::norm(first + phase * length));
    for (int64_t i = k + 2; i < n; ++i) v[i] /= size;
    v[k + 1] = (first + phase * length) / size;
    Reflect(a, u, n, k + 1, v);
    for (int64_t i = k + 2; i < n; ++i) a[i * n + k] = 0;
  }
}

// The eigenvalue of the last two rows and columns up to `last` that is nearer to the last element.
Complex WilkinsonShift(const Complex* a, int64_t n, int64_t last) {
  const Complex p = a[(last - 1) * n + last - 1], q = a[(last - 1) * n + last], r = a[last * n + last - 1],
                s = a[last * n + last];
  const Complex half = (p - s) * 0.5, root = std::sqrt(half * half + q * r);
  const Complex sum = half + root, difference = half - root;
  const Complex larger = std::abs(sum) > std::abs(difference) ? sum : difference;
  return larger == Complex(0) ? s : s - q * r / larger;
}

// One step of the QR algorithm on rows and columns [first, last].
void ChaseBulge(Complex* a, Complex* u, int64_t n, int64_t first, int64_t last, Complex shift) {
  Complex x = a[first * n + first] - shift, y = a[(first + 1) * n + first];
  for (int64_t k = first; k < last; ++k) {
    const double length = std::hypot(std::abs(x), std::abs(y));
    const Complex c = length == 0 ? Complex(1) : x / length, s = length == 0 ? Complex(0) : y / length;
    Complex *const row = a + k * n, *const next = row + n;
    for (int64_t j = std::max<int64_t>(k - 1, 0); j < n; ++j) {
      const Complex upper = row[j], lower = next[j];
      row[j] = std::conj(c) * upper + std::conj(s) * lower;
      next[j] = c * lower - s * upper;
    }
    const auto turn_columns = [&](Complex* matrix, int64_t rows) {
      for (int64_t i = 0; i < rows; ++i) {
        const Complex left = matrix[i * n + k], right = matrix[i * n + k + 1];
        matrix[i * n + k] = left * c + right * s;
        matrix[i * n + k + 1] = right * std::conj(c) - left * std::conj(s);
      }
    };
    turn_columns(a, std::min(k + 3, last + 1));
    turn_columns(u, n);
    if (k + 1 == last) break;
    x = a[(k + 1) * n + k];
    y = a[(k + 2) * n + k];
  }
}

// The first row of the last block that does not fall apart, of rows up to `last`.
int64_t BlockBegin(Complex* a, int64_t n, int64_t last) {
  for (int64_t i = last; i > 0; --i) {
    const double beside = std::abs(a[(i - 1) * n + i - 1]) + std::abs(a[i * n + i]);
    // Numbers are at most about 1 in size.
    if (std::abs(a[i * n + i - 1]) > kEpsilon * beside && std::abs(a[i * n + i - 1]) > 1e-300) continue;
    a[i * n + i - 1] = 0;
    return i;
  }
  return 0;
}

// The largest sum of a column of t - 1.
double DistanceFromOne(const Complex* t, int64_t n) {
  double largest = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i <= j; ++i) sum += std::abs(t[i * n + j] - (i == j ? 1.0 : 0.0));
    largest = std::max(largest, sum);
  }
  return largest;
}

// sum += weight x (1 + at x)^-1 for upper triangular x. Both factors commute, so the quotient is solved for
// from the left.
void AddFraction(const Complex* x, int64_t n, double at, double weight, Complex* quotient, Complex* sum) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i >= 0; --i) {
      Complex value = x[i * n + j];
      for (int64_t k = i + 1; k <= j; ++k) value -= at * x[i * n + k] * quotient[k * n + j];
      quotient[i * n + j] = value / (1.0 + at * x[i * n + i]);
      sum[i * n + j] += weight * quotient[i * n + j];
    }
  }
}

}  // namespace

bool SchurForm(Complex* a, int64_t n, Complex* u, Complex* room, const Cancellation& cancellation) {
  std::fill_n(u, n * n, Complex(0));
  for (int64_t i = 0; i < n; ++i) u[i * n + i] = 1;
  const double scale = LargestOf(a, n * n);
  if (scale == 0) return true;
  for (int64_t i = 0; i < n * n; ++i) a[i] /= scale;
  ReduceToHessenberg(a, u, n, room, cancellation);
  int iterations = 0;
  for (int64_t last = n - 1; last > 0 && !cancellation.is_cancelled();) {
    const int64_t first = BlockBegin(a, n, last);
    if (first == last) {
      --last;
      iterations = 0;
      continue;
    }
    if (++iterations > kMostIterations) return false;
    // Now and then a shift of another kind, for matrices that the usual one goes around in circles with.
    const bool is_exceptional = iterations % 10 == 0;
    ChaseBulge(a, u, n, first, last,
               is_exceptional ? Complex(std::abs(a[last * n + last - 1])) : WilkinsonShift(a, n, last));
  }
  for (int64_t i = 0; i < n * n; ++i) a[i] *= scale;
  return true;
}

void EigenvectorsOfSchurForm(const Complex* t, const Complex* u, int64_t n, Complex* room, Complex* vectors,
                             const Cancellation& cancellation) {
  const double least = kEpsilon * std::max(LargestOf(t, n * n), std::numeric_limits<double>::min());
  for (int64_t k = 0; k < n && !cancellation.is_cancelled(); ++k) {
    room[k] = 1;
    for (int64_t i = k - 1; i >= 0; --i) {
      Complex sum = t[i * n + k];
      for (int64_t j = i + 1; j < k; ++j) sum += t[i * n + j] * room[j];
      const Complex difference = t[i * n + i] - t[k * n + k];
      room[i] = -sum / (difference == Complex(0) ? Complex(least) : difference);
      // Every eigenvalue that is there again makes them larger. Their length is of no account.
      const double size = LargestOf(room + i, 1);
      if (size <= kLarge) continue;
      for (int64_t j = i; j <= k; ++j) room[j] /= size;
    }
    double size = 0;
    for (int64_t i = 0; i < n; ++i) {
      Complex sum = 0;
      for (int64_t j = 0; j <= k; ++j) sum += u[i * n + j] * room[j];
      vectors[i * n + k] = sum;
      size = std::hypot(size, std::abs(sum));
    }
    for (int64_t i = 0; i < n && size > 0; ++i) vectors[i * n + k] /= size;
  }
}

void RootOfTriangular(const Complex* t, int64_t n, Complex* root, const Cancellation& cancellation) {
  std::fill_n(root, n * n, Complex(0));
  for (int64_t j = 0; j < n && !cancellation.is_cancelled(); ++j) {
    root[j * n + j] = std::sqrt(t[j * n + j]);
    for (int64_t i = j - 1; i >= 0; --i) {
      Complex sum = t[i * n + j];
      for (int64_t k = i + 1; k < j; ++k) sum -= root[i * n + k] * root[k * n + j];
      const Complex divisor = root[i * n + i] + root[j * n + j];
      root[i * n + j] = divisor == Complex(0) ? Complex(kNaN, kNaN) : sum / divisor;
    }
  }
}

void LogarithmOfTriangular(Complex* t, int64_t n, Complex* room, Complex* log,
                           const Cancellation& cancellation) {
  constexpr double kNear = 0.25;  // where seven fractions are exact to the last digits of a double
  // Gauss and Legendre's points and weights on [-1, 1], of which the positive half.
  constexpr double kPoints[] = {0, 0.405845151377397167, 0.741531185599394440, 0.949107912342758525};
  constexpr double kWeights[] = {0.417959183673469388, 0.381830050505118945, 0.279705391489276668,
                                 0.129484966168869693};
  Complex *const root = room, *const diagonal = room + n * n;
  for (int64_t i = 0; i < n; ++i) diagonal[i] = std::log(t[i * n + i]);
  int roots = 0;
  for (; DistanceFromOne(t, n) > kNear && roots < kMostRoots && !cancellation.is_cancelled(); ++roots) {
    RootOfTriangular(t, n, root, cancellation);
    std::copy_n(root, n * n, t);
  }
  for (int64_t i = 0; i < n; ++i) t[i * n + i] -= 1;
  std::fill_n(log, n * n, Complex(0));
  for (int k = 0; k < 4 && !cancellation.is_cancelled(); ++k) {
    for (const double side : {-1.0, 1.0}) {
      if (k == 0 && side > 0) continue;
      AddFraction(t, n, (1 + side * kPoints[k]) / 2, kWeights[k] / 2, root, log);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) log[i * n + j] = std::ldexp(1, roots) * log[i * n + j];
    log[i * n + i] = diagonal[i];
  }
}

void TurnBack(const Complex* m, const Complex* u, int64_t n, Complex* room, Complex* result,
              const Cancellation& cancellation) {
  std::fill_n(room, n * n, Complex(0));
  std::fill_n(result, n * n, Complex(0));
  for (int64_t i = 0; i < n && !cancellation.is_cancelled(); ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = k; j < n; ++j) room[i * n + j] += u[i * n + k] * m[k * n + j];
  for (int64_t i = 0; i < n && !cancellation.is_cancelled(); ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) result[i * n + j] += room[i * n + k] * std::conj(u[j * n + k]);
}

}  // namespace weir
