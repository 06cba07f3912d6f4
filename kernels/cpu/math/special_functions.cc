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

// The sum of coefficients[k] x^k.
template <size_t n>
double Polynomial(const double (&coefficients)[n], double x) {
  double sum = 0;
  for (size_t k = n; k-- > 0;) sum = sum * x + coefficients[k];
  return sum;
}

// A quotient of two polynomials.
struct Rational {
  double numerator[8], denominator[8];
  double operator()(double x) const { return Polynomial(numerator, x) / Polynomial(denominator, x); }
};

// The coefficients of AS 241's PPND16, which has a relative error of about 1e-16. Centre: |p - 1/2| <= 0.425.
// Tails: r = sqrt(-log p) <= 5, and beyond.
constexpr Rational kCentre = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
constexpr Rational kTail = {{1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                             3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                             2.27238449892691845833e-2, 7.74545014278341407640e-4},
                            {1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                             1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                             1.05075007164441684324e-9}};
constexpr Rational kFarTail = {
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5,
     2.01033439929228813265e-7},
    {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15}};

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
    // Negative terms may leave a negative sum, and with positive ones, where no double holds either, none.
    if (std::isnan(sum) || (q > 0 && term <= 1e-17 * std::abs(sum))) return sum;
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

double NormalQuantile(double probability) {
  if (!(probability >= 0 && probability <= 1)) return kNan;
  const double from_centre = probability - 0.5;
  if (std::abs(from_centre) <= 0.425) {
    return from_centre * kCentre(0.180625 - from_centre * from_centre);  // 0.425^2
  }
  const double tail = from_centre < 0 ? probability : 1 - probability;
  if (tail == 0) return from_centre < 0 ? -kInfinity : kInfinity;
  const double r = std::sqrt(-std::log(tail));
  const double distance = r <= 5 ? kTail(r - 1.6) : kFarTail(r - 5);
  return from_centre < 0 ? -distance : distance;
}

}  // namespace weir
