#include "kernels/cpu/math/fourier_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kLargestFactor = 31;  // beyond, the square of a factor costs more than a convolution

// The operator of std::complex looks for NaN and calls a function.
template <typename Real>
std::complex<Real> Times(std::complex<Real> a, std::complex<Real> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Fours first: they do the most for one way through memory. Empty for 1, and where a factor is too large.
std::vector<int> SmallFactors(int64_t n) {
  std::vector<int> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int factor = 2; n > 1 && factor <= kLargestFactor; ++factor)
    for (; n % factor == 0; n /= factor) factors.push_back(factor);
  if (n > 1) factors.clear();
  return factors;
}

// i * z, or -i * z.
template <typename Real>
std::complex<Real> Turned(std::complex<Real> z, Real sine) {
  return {-sine * z.imag(), sine * z.real()};
}

// Transforms of length 2 to 5, and of any other, on t; `roots` are those of that length.
template <int p, typename Real>
void Butterfly(std::complex<Real>* t, const std::complex<Real>* roots) {
  using Complex = std::complex<Real>;
  if constexpr (p == 2) {
    const Complex a = t[0];
    t[0] = a + t[1];
    t[1] = a - t[1];
  } else if constexpr (p == 3) {
    const Complex sum = t[1] + t[2], turned = Turned<Real>(t[1] - t[2], roots[1].imag());
    const Complex middle = t[0] + roots[1].real() * sum;
    t[0] += sum;
    t[1] = middle + turned;
    t[2] = middle - turned;
  } else if constexpr (p == 4) {
    const Complex even = t[0] + t[2], odd = t[1] + t[3], difference = t[0] - t[2];
    const Complex turned = Turned<Real>(t[1] - t[3], roots[1].imag());
    t[0] = even + odd;
    t[1] = difference + turned;
    t[2] = even - odd;
    t[3] = difference - turned;
  } else {
    const Complex outer = t[1] + t[4], inner = t[2] + t[3];
    const Complex outer_less = t[1] - t[4], inner_less = t[2] - t[3];
    const Real c1 = roots[1].real(), c2 = roots[2].real(), s1 = roots[1].imag(), s2 = roots[2].imag();
    const Complex a = t[0] + c1 * outer + c2 * inner, b = t[0] + c2 * outer + c1 * inner;
    const Complex c = Turned<Real>(s1 * outer_less + s2 * inner_less, Real(1));
    const Complex d = Turned<Real>(s2 * outer_less - s1 * inner_less, Real(1));
    t[0] += outer + inner;
    t[1] = a + c;
    t[2] = b + d;
    t[3] = b - d;
    t[4] = a - c;
  }
}

// One pass of p parts: from[j m + k] of m groups go to to[p k + r], each of `stride` neighbours.
struct Pass {
  int64_t groups, stride;
  // Of roots that belong to this pass: how far they are apart.
  int64_t root_stride;
};

template <int p, typename Real>
void RunPass(const Pass& pass, const std::complex<Real>* from, std::complex<Real>* to,
             const std::complex<Real>* roots) {
  std::complex<Real> own[p];
  for (int r = 0; r < p; ++r) own[r] = roots[pass.groups * pass.root_stride * r];
  for (int64_t k = 0; k < pass.groups; ++k) {
    std::complex<Real> factors[p];
    for (int r = 1; r < p; ++r) factors[r] = roots[k * r * pass.root_stride];
    for (int64_t q = 0; q < pass.stride; ++q) {
      std::complex<Real> t[p];
      for (int j = 0; j < p; ++j) t[j] = from[(j * pass.groups + k) * pass.stride + q];
      Butterfly<p>(t, own);
      std::complex<Real>* const result = to + k * p * pass.stride + q;
      result[0] = t[0];
      for (int r = 1; r < p; ++r) result[r * pass.stride] = Times(t[r], factors[r]);
    }
  }
}

template <typename Real>
void RunPassOfAnyFactor(int p, const Pass& pass, const std::complex<Real>* from, std::complex<Real>* to,
                        const std::complex<Real>* roots) {
  for (int64_t k = 0; k < pass.groups; ++k) {
    for (int64_t q = 0; q < pass.stride; ++q) {
      for (int r = 0; r < p; ++r) {
        std::complex<Real> sum = 0;
        for (int j = 0; j < p; ++j) {
          const std::complex<Real> root = roots[pass.groups * pass.root_stride * (j * r % p)];
          sum += Times(from[(j * pass.groups + k) * pass.stride + q], root);
        }
        to[(k * p + r) * pass.stride + q] = Times(sum, roots[k * r * pass.root_stride]);
      }
    }
  }
}

template <typename Real>
absl::StatusOr<Tensor> MakeRoots(KernelContext& context, int64_t n, FourierSign sign) {
  using Complex = std::complex<Real>;
  WEIR_ASSIGN_OR_RETURN(Tensor roots, context.AllocateTemporary(DTypeOf<Complex>, Shape({n})));
  Complex* const to = roots.flat<Complex>().data();
  for (int64_t k = 0; k < n; ++k) {
    WEIR_RETURN_IF_ERROR(CheckStep(context.cancellation(), k));
    to[k] = Complex(RootOfUnity(k, n, sign));
  }
  return roots;
}

}  // namespace

absl::Status CheckStep(const Cancellation& cancellation, int64_t at) {
  if (at % (1 << 16) != 0 || !cancellation.is_cancelled()) return absl::OkStatus();
  return absl::CancelledError("the step was cancelled");
}

std::complex<double> RootOfUnity(int64_t k, int64_t n, FourierSign sign) {
  // The angle from the nearest quarter of a turn, where sine and cosine are exact.
  const int64_t quarters = static_cast<int64_t>((static_cast<__int128>(k) * 4 + n / 2) / n);
  const __int128 rest = static_cast<__int128>(k) * 4 - static_cast<__int128>(quarters) * n;
  const double angle = M_PI_2 * static_cast<double>(rest) / static_cast<double>(n);
  std::complex<double> root = {std::cos(angle), std::sin(angle)};
  for (int64_t i = 0; i < quarters % 4; ++i) root = {-root.imag(), root.real()};
  return sign == FourierSign::kForward ? std::conj(root) : root;
}

template <typename Real>
absl::StatusOr<FourierPlan<Real>> FourierPlan<Real>::Create(KernelContext& context, int64_t n,
                                                            FourierSign sign) {
  FourierPlan plan;
  plan.n_ = n;
  if (n < 2) return plan;
  plan.factors_ = SmallFactors(n);
  if (plan.factors_.empty()) {
    WEIR_RETURN_IF_ERROR(plan.MakeConvolution(context, sign));
  } else {
    WEIR_ASSIGN_OR_RETURN(plan.roots_, MakeRoots<Real>(context, n, sign));
  }
  return plan;
}

// jk = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution with exp(+pi i k^2 / n).
template <typename Real>
absl::Status FourierPlan<Real>::MakeConvolution(KernelContext& context, FourierSign sign) {
  if (n_ > int64_t{1} << 60) return absl::ResourceExhaustedError("the transform is too long");
  padded_ = 1;
  while (padded_ < 2 * n_ - 1) padded_ *= 2;
  factors_ = SmallFactors(padded_);
  WEIR_ASSIGN_OR_RETURN(roots_, MakeRoots<Real>(context, padded_, FourierSign::kForward));
  WEIR_ASSIGN_OR_RETURN(chirp_, context.AllocateTemporary(DTypeOf<Complex>, Shape({n_})));
  WEIR_ASSIGN_OR_RETURN(filter_, context.AllocateTemporary(DTypeOf<Complex>, Shape({padded_})));
  WEIR_ASSIGN_OR_RETURN(Tensor other, context.AllocateTemporary(DTypeOf<Complex>, Shape({padded_})));
  Complex* const chirp = chirp_.flat<Complex>().data();
  Complex* const filter = filter_.flat<Complex>().data();
  std::fill_n(filter, padded_, Complex(0));
  for (int64_t k = 0; k < n_; ++k) {
    WEIR_RETURN_IF_ERROR(CheckStep(context.cancellation(), k));
    const auto square = static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n_));
    chirp[k] = Complex(RootOfUnity(square, 2 * n_, sign));
    filter[k] = filter[(padded_ - k) % padded_] = std::conj(chirp[k]) / static_cast<Real>(padded_);
  }
  const Complex* const result = MixedRadix(filter, other.flat<Complex>().data(), padded_, 1, factors_,
                                           roots_.flat<Complex>().data(), context.cancellation());
  if (result != filter) std::copy_n(result, padded_, filter);
  return absl::OkStatus();
}

template <typename Real>
double FourierPlan<Real>::cost() const {
  const double n = static_cast<double>(is_convolution() ? 2 * padded_ : n_);
  return 2 * n * (1 + static_cast<double>(factors_.size()));
}

template <typename Real>
void FourierPlan<Real>::Run(Complex* data, int64_t columns, Complex* room,
                            const Cancellation& cancellation) const {
  if (n_ < 2) return;
  if (is_convolution()) return Convolve(data, columns, room, cancellation);
  const Complex* const result =
      MixedRadix(data, room, n_, columns, factors_, roots_.flat<Complex>().data(), cancellation);
  if (result != data) std::copy_n(result, n_ * columns, data);
}

template <typename Real>
std::complex<Real>* FourierPlan<Real>::MixedRadix(Complex* data, Complex* other, int64_t n, int64_t columns,
                                                  const std::vector<int>& factors, const Complex* roots,
                                                  const Cancellation& cancellation) const {
  int64_t left = n, done = 1;
  for (const int factor : factors) {
    if (cancellation.is_cancelled()) break;
    const Pass pass = {left / factor, done * columns, done};
    switch (factor) {
      case 2:
        RunPass<2>(pass, data, other, roots);
        break;
      case 3:
        RunPass<3>(pass, data, other, roots);
        break;
      case 4:
        RunPass<4>(pass, data, other, roots);
        break;
      case 5:
        RunPass<5>(pass, data, other, roots);
        break;
      default:
        RunPassOfAnyFactor(factor, pass, data, other, roots);
    }
    std::swap(data, other);
    left /= factor;
    done *= factor;
  }
  return data;
}

template <typename Real>
void FourierPlan<Real>::Convolve(Complex* data, int64_t columns, Complex* room,
                                 const Cancellation& cancellation) const {
  const Complex* const chirp = chirp_.flat<Complex>().data();
  const Complex* const filter = filter_.flat<Complex>().data();
  const Complex* const roots = roots_.flat<Complex>().data();
  Complex* const padded = room;
  Complex* const other = room + padded_ * columns;
  for (int64_t k = 0; k < n_; ++k)
    for (int64_t c = 0; c < columns; ++c) padded[k * columns + c] = Times(data[k * columns + c], chirp[k]);
  std::fill(padded + n_ * columns, padded + padded_ * columns, Complex(0));
  Complex* spectrum = MixedRadix(padded, other, padded_, columns, factors_, roots, cancellation);
  // The inverse transform is the conjugate of the transform of the conjugate.
  for (int64_t k = 0; k < padded_; ++k)
    for (int64_t c = 0; c < columns; ++c)
      spectrum[k * columns + c] = std::conj(Times(spectrum[k * columns + c], filter[k]));
  const Complex* const result = MixedRadix(spectrum, spectrum == padded ? other : padded, padded_, columns,
                                           factors_, roots, cancellation);
  for (int64_t k = 0; k < n_; ++k)
    for (int64_t c = 0; c < columns; ++c)
      data[k * columns + c] = Times(std::conj(result[k * columns + c]), chirp[k]);
}

template class FourierPlan<float>;
template class FourierPlan<double>;

}  // namespace weir
