#include "kernels/cpu/math/higher_functions.h"

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace weir {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = std::numbers::pi;
// A term below this part of its sum changes nothing.
constexpr double kNegligible = 1e-18;

// From here on the asymptotic series of the modified Bessel functions are exact to the last bit.
constexpr double kFar = 30;

// The sum of a_k(order) (sign / x)^k (DLMF 10.17.1, 10.40.1, 10.40.2). Precondition: x >= kFar.
double HankelSum(int order, double x, double sign) {
  const double mu = 4.0 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 60; ++k) {
    const double odd = 2 * k - 1;
    term *= sign * (mu - odd * odd) / (8 * k * x);
    sum += term;
    if (std::fabs(term) < kNegligible) break;
  }
  return sum;
}

// K by its power series (DLMF 10.31.1, 10.31.2). Precondition: 0 < x < 2.
double BesselKSeries(int order, double x) {
  // psi(k + 1) + psi(k + 1 + order), term (x^2 / 4)^k / (k! (k + order)!).
  const double quarter = x * x / 4, logarithm = std::log(x / 2);
  double psi = -2 * std::numbers::egamma + order, term = order == 0 ? 1 : x / 2, i = 0, rest = 0;
  for (int k = 0; k < 40; ++k) {
    i += term;
    rest += term * psi / 2;
    psi += 1.0 / (k + 1) + 1.0 / (k + 1 + order);
    term *= quarter / ((k + 1.0) * (k + 1 + order));
    if (term < i * kNegligible) break;
  }
  return order == 0 ? rest - logarithm * i : 1 / x + logarithm * i - rest;
}

// C(x) + i S(x) by its power series (DLMF 7.6.4, 7.6.6). Precondition: 0 <= x < 1.6.
std::complex<double> FresnelSeries(double x) {
  // Terms (i pi x^2 / 2)^k / (k! (2k + 1)) times x.
  const std::complex<double> factor(0, kPi / 2 * x * x);
  std::complex<double> power = x, sum = x;
  for (int k = 1; k < 60; ++k) {
    power *= factor / static_cast<double>(k);
    const std::complex<double> term = power / (2.0 * k + 1);
    sum += term;
    if (std::abs(term) < kNegligible) break;
  }
  return sum;
}

// The same by the continued fraction of the complementary error function (DLMF 7.9.3), which C and S are with
// a complex argument (7.5.8): erfc(z) = exp(-z^2) / sqrt(pi) * 2z / (2z^2 + 1 - 1*2 / (2z^2 + 5 - 3*4 /
// ...)), with z = sqrt(pi) / 2 * (1 - i) x.
std::complex<double> FresnelFraction(double x) {
  const std::complex<double> z = std::sqrt(kPi) / 2 * std::complex<double>(x, -x);
  const std::complex<double> twice(0, -kPi * x * x);  // 2 z^2
  // Lentz's way: the quotients of numerators and of denominators, one after another.
  std::complex<double> denominator = twice + 1.0, c = 1e300, d = 1.0 / denominator, fraction = d;
  for (int k = 1; k < 200; ++k) {
    const double a = -(2.0 * k - 1) * (2.0 * k);
    denominator += 4.0;
    d = 1.0 / (a * d + denominator);
    c = denominator + a / c;
    const std::complex<double> factor = c * d;
    fraction *= factor;
    if (std::abs(factor - 1.0) < 1e-16) break;
  }
  // The phase of exp(-z^2), pi x^2 / 2, repeats when x^2 grows by 4.
  const double phase = kPi / 2 * std::fmod(x * x, 4.0);
  const std::complex<double> bell(std::cos(phase), std::sin(phase));
  const std::complex<double> complement = bell / std::sqrt(kPi) * 2.0 * z * fraction;
  return std::complex<double>(0.5, 0.5) * (1.0 - complement);
}

// Both are odd functions.
std::complex<double> Fresnel(double x) {
  if (std::isnan(x)) return {kNaN, kNaN};
  if (x < 0) return -Fresnel(-x);
  // So far out that what is left of 1/2 is no bit of it.
  if (x > 1e16) return {0.5, 0.5};
  return x < 1.6 ? FresnelSeries(x) : FresnelFraction(x);
}

}  // namespace

double ScaledBesselI(int order, double x) {
  const double size = std::fabs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isnan(x)) return kNaN;
  if (size > kFar) return sign * HankelSum(order, size, -1) / std::sqrt(2 * kPi * size);
  // The power series, whose terms are all positive (DLMF 10.25.2).
  const double quarter = size * size / 4;
  double term = order == 0 ? 1 : size / 2, sum = term;
  for (int k = 1; k < 200; ++k) {
    term *= quarter / (static_cast<double>(k) * (k + order));
    sum += term;
    if (term < sum * kNegligible) break;
  }
  return sign * sum * std::exp(-size);
}

double ScaledBesselK(int order, double x) {
  if (std::isnan(x)) return kNaN;
  if (x <= 0) return kInfinity;
  if (x > kFar) return std::sqrt(kPi / (2 * x)) * HankelSum(order, x, 1);
  if (x < 2) return BesselKSeries(order, x) * std::exp(x);
  // The integral of exp(-x (cosh t - 1)) cosh(order t) (DLMF 10.32.9) as a sum of steps: exact to
  // exp(-2 pi^2 / (x step^2)).
  constexpr double kStep = 0.125;
  double sum = 0.5;
  for (double t = kStep; t < 5; t += kStep) sum += std::exp(-x * (std::cosh(t) - 1)) * std::cosh(order * t);
  return kStep * sum;
}

// At infinity TensorFlow's functions without a factor of exp(-|x|) or exp(x) are NaN, but for K, and so are
// Ei and Spence's: whatever their limits are.
double BesselI(int order, double x) {
  if (std::isinf(x)) return kNaN;
  // In two steps, because exp(|x|) may overflow where the product does not.
  const double half = std::exp(std::fabs(x) / 2);
  return std::isinf(half) ? (order == 1 && x < 0 ? -kInfinity : kInfinity)
                          : ScaledBesselI(order, x) * half * half;
}

double BesselK(int order, double x) {
  return x > 0 ? ScaledBesselK(order, x) * std::exp(-x) : ScaledBesselK(order, x);
}

double BesselJ(int order, double x) {
  if (std::isinf(x)) return kNaN;
  return order == 0 ? ::j0(x) : ::j1(x);
}

double BesselY(int order, double x) {
  if (std::isnan(x)) return kNaN;
  if (x <= 0) return -kInfinity;
  if (std::isinf(x)) return kNaN;
  return order == 0 ? ::y0(x) : ::y1(x);
}

double DawsonIntegral(double x) {
  const double size = std::fabs(x);
  if (std::isnan(x)) return kNaN;
  double term = 1, sum = 1;
  if (size < 0.5) {  // DLMF 7.6.3
    for (int k = 0; k < 40 && std::fabs(term) > kNegligible; ++k)
      sum += term *= -2 * size * size / (2 * k + 3);
    return x * sum;
  }
  if (size > 12) {  // DLMF 7.12.1
    for (int k = 1; k < 40 && term > kNegligible; ++k) sum += term *= (2 * k - 1) / (2 * size * size);
    return sum / (2 * x);
  }
  // The limit of sums of bells at odd multiples of a step, which is exact to exp(-(pi / (2 step))^2).
  constexpr double kStep = 0.2;
  const auto odd = static_cast<int>(size / kStep / 2) * 2 + 1;
  sum = 0;
  for (int n = odd - 80; n <= odd + 80; n += 2) {
    const double distance = size - n * kStep;
    sum += std::exp(-distance * distance) / n;
  }
  return std::copysign(sum / std::sqrt(kPi), x);
}

double ExponentialIntegral(double x) {
  if (!(x >= 0)) return kNaN;
  if (x == 0) return -kInfinity;
  return std::isinf(x) ? kNaN : std::expint(x);
}

double FresnelCosine(double x) { return Fresnel(x).real(); }
double FresnelSine(double x) { return Fresnel(x).imag(); }

double Spence(double x) {
  if (!(x >= 0)) return kNaN;
  if (x == 0) return kPi * kPi / 6;
  if (std::isinf(x)) return kNaN;
  if (x > 2) return -Spence(1 / x) - std::log(x) * std::log(x) / 2;                  // DLMF 25.12.4
  if (x < 0.5) return kPi * kPi / 6 - std::log(x) * std::log1p(-x) - Spence(1 - x);  // DLMF 25.12.6
  // The integral of u / (exp(u) - 1): coefficients are Bernoulli's numbers B(2k) / (2k + 1)!.
  constexpr double kCoefficients[] = {1.0 / 36,
                                      -1.0 / 3600,
                                      1.0 / 211680,
                                      -1.0 / 10886400,
                                      1.0 / 526901760,
                                      -691.0 / 2730 / 6227020800.0,
                                      7.0 / 6 / 1307674368000.0,
                                      -3617.0 / 510 / 355687428096000.0};
  const double u = -std::log1p(x - 1);
  double power = u, sum = u - u * u / 4;
  for (const double coefficient : kCoefficients) sum += coefficient * (power *= u * u);
  return sum;
}

}  // namespace weir
