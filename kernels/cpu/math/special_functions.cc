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
