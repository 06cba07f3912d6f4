#include "kernels/cpu/math/special_functions.h"

#include <math.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace weir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// From here on the asymptotic series give all digits of a double.
constexpr double kLarge = 10;

// Bernoulli numbers B2, B4, B6...
constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                                 -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};

// A function of the gamma distribution's shape and its derivative by it.
struct Dual {
  Dual(double value, double slope = 0) : value(value), slope(slope) {}  // NOLINT: a number is constant
  double value, slope;
};
Dual operator+(Dual x, Dual y) { return {x.value + y.value, x.slope + y.slope}; }
Dual operator*(Dual x, Dual y) { return {x.value * y.value, x.slope * y.value + x.value * y.slope}; }
Dual operator/(Dual x, Dual y) {
  return {x.value / y.value, (x.slope * y.value - x.value * y.slope) / (y.value * y.value)};
}

constexpr int kMostTerms = 5000;
bool IsNegligible(Dual term, Dual sum) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  return std::abs(term.value) <= kEpsilon * std::abs(sum.value) &&
         std::abs(term.slope) <= kEpsilon * std::abs(sum.slope);
}

// The sum of x^n / ((a + 1) ... (a + n)): DLMF 8.11.4 up to a factor.
Dual LowerGammaSeries(double a, double x) {
  Dual sum = 1, term = 1;
  for (int n = 1; n < kMostTerms; ++n) {
    term = term * (Dual(x) / Dual(a + n, 1));
    sum = sum + term;
    if (IsNegligible(term, sum)) break;
  }
  return sum;
}

// 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)): DLMF 8.9.2, by Lentz's method.
Dual UpperGammaFraction(double a, double x) {
  const Dual minus_a(-a, -1);
  Dual denominator = Dual(x + 1) + minus_a;
  Dual c = denominator, d = Dual(1) / denominator, fraction = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const Dual numerator = Dual(-n) * (Dual(n) + minus_a);
    denominator = denominator + Dual(2);
    d = Dual(1) / (numerator * d + denominator);
    // In the first step the method begins with an infinite c.
    c = n == 1 ? denominator : denominator + numerator / c;
    const Dual next = fraction * (c * d);
    const Dual change = next + Dual(-1) * fraction;
    fraction = next;
    if (IsNegligible(change, fraction)) break;
  }
  return fraction;
}

}  // namespace

double LogGamma(double x) {
  int sign;  // lgamma would write it to a global variable, which threads share
  return ::lgamma_r(x, &sign);
}

double Digamma(double x) {
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    return Digamma(1 - x) - kPi / std::tan(kPi * (x - std::floor(x)));  // DLMF 5.5.4
  }
  double shift = 0;
  for (; x < kLarge; x += 1) shift += 1 / x;  // DLMF 5.5.2
  // DLMF 5.11.2
  const double square = x * x;
  double series = 0, power = 1;
  for (int k = 0; k < 8; ++k) {
    power *= square;
    series += kBernoulli[k] / (2 * (k + 1) * power);
  }
  return std::log(x) - 0.5 / x - series - shift;
}

// With dP/da from a series where x is small, else with that of 1 - P from a continued fraction; both are
// divided by the density x^(a-1) e^-x / Gamma(a).
double GammaSampleSlope(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return kNan;
  if (x == 0) return 0;
  if (x <= 1 || x <= a) {
    const Dual sum = LowerGammaSeries(a, x);
    return -x / a * ((std::log(x) - Digamma(a + 1)) * sum.value + sum.slope);
  }
  const Dual fraction = UpperGammaFraction(a, x);
  return x * ((std::log(x) - Digamma(a)) * fraction.value + fraction.slope);
}

double Zeta(double x, double q) {
  if (x == 1) return kInfinity;
  if (!(x > 1) || std::isnan(q)) return kNan;
  if (q <= 0) {
    const bool is_whole = x == std::floor(x);
    if (q == std::floor(q)) return is_whole && std::fmod(x, 2) == 0 ? kInfinity : kNan;
    if (!is_whole) return kNan;
    if (q < -1e5) return kNan;  // more terms than anybody would wait for
  }
  if (q == kInfinity) return 0;
  // The Euler-Maclaurin formula, DLMF 25.11.28 after the first terms are taken one by one.
  double sum = 0;
  for (; q < std::max(kLarge, x); q += 1) {
    const double term = std::pow(q, -x);
    sum += term;
    if (q > 0 && term <= 1e-17 * sum) return sum;
  }
  const double last = std::pow(q, -x);
  sum += last * q / (x - 1) + last / 2;
  double factor = x * last / (2 * q);  // x (x+1)... q^(-x-2k+1) / (2k)!
  for (int k = 1; k <= 10; ++k) {
    const double term = kBernoulli[k - 1] * factor;
    sum += term;
    if (std::abs(term) < 1e-17 * std::abs(sum)) break;
    factor *= (x + 2 * k - 1) * (x + 2 * k) / (q * q * (2 * k + 1) * (2 * k + 2));
  }
  return sum;
}

double Polygamma(double n, double x) {
  if (!(n >= 0) || n != std::floor(n)) return kNan;
  if (n == 0) return Digamma(x);
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::exp(LogGamma(n + 1)) * Zeta(n + 1, x);  // DLMF 25.11.12
}

}  // namespace weir
