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

// log x - Digamma(x), DLMF 5.11.2. Precondition: x >= kLarge.
double LogMinusDigamma(double x) {
  const double square = x * x;
  double series = 0, power = 1;
  for (int k = 0; k < 8; ++k) {
    power *= square;
    series += kBernoulli[k] / (2 * (k + 1) * power);
  }
  return 0.5 / x + series;
}

// What Stirling's formula for log Gamma(x) lacks, DLMF 5.11.1. Precondition: x >= kLarge.
double StirlingRest(double x) {
  double series = 0, power = x;
  for (int k = 1; k <= 8; ++k) {
    series += kBernoulli[k - 1] / (2 * k * (2 * k - 1) * power);
    power *= x * x;
  }
  return series;
}

// log Gamma(1 + a), exact also where 1 + a is rounded. Precondition: 0 <= a < 1.
double LogGammaOfNext(double a) {
  const double next = 1 + a;
  return LogGamma(next) + Digamma(next) * (a - (next - 1));
}

// A function of the gamma distribution's shape and its derivative by it.
struct Dual {
  Dual(double value, double slope = 0) : value(value), slope(slope) {}  // NOLINT: a number is constant
  double value, slope;
};
Dual operator+(Dual x, Dual y) { return {x.value + y.value, x.slope + y.slope}; }
Dual operator*(Dual x, Dual y) { return {x.value * y.value, x.slope * y.value + x.value * y.slope}; }
Dual operator/(Dual x, Dual y) {
  const double quotient = x.value / y.value;
  return {quotient, (x.slope - quotient * y.slope) / y.value};
}

constexpr int kMostTerms = 5000;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
bool IsNegligible(double term, double sum) { return std::abs(term) <= kEpsilon * std::abs(sum); }
bool IsNegligible(Dual term, Dual sum) {
  return IsNegligible(term.value, sum.value) && IsNegligible(term.slope, sum.slope);
}

// The sum of x^n / ((a + 1) ... (a + n)): DLMF 8.11.4 up to a factor.
template <typename N>
N LowerGammaSeries(N a, double x) {
  N sum = 1, term = 1;
  for (int n = 1; n < kMostTerms; ++n) {
    term = term * (N(x) / (a + N(n)));
    sum = sum + term;
    if (IsNegligible(term, sum)) break;
  }
  return sum;
}

// 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)): DLMF 8.9.2, by Lentz's method.
template <typename N>
N UpperGammaFraction(N a, double x) {
  const N minus_a = N(-1) * a;
  N denominator = N(x + 1) + minus_a;
  N c = denominator, d = N(1) / denominator, fraction = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const N numerator = N(-n) * (N(n) + minus_a);
    denominator = denominator + N(2);
    d = N(1) / (numerator * d + denominator);
    // In the first step the method begins with an infinite c.
    c = n == 1 ? denominator : denominator + numerator / c;
    const N next = fraction * (c * d);
    const N change = next + N(-1) * fraction;
    fraction = next;
    if (IsNegligible(change, fraction)) break;
  }
  return fraction;
}

// The series and the fraction take more terms the larger a is where x is about a; from here on the expansion
// below is exact with its first terms.
constexpr double kManyTerms = 1e4;

// How far x is from a: mu = x / a - 1, and mu - log(1 + mu) divided by mu^2, which is 1/2 at mu = 0.
struct Distance {
  Distance(double a, double x) : Distance((x - a) / a) {}
  explicit Distance(double mu) : mu(mu) {
    // The logarithm by powers of mu / (2 + mu), which is small enough.
    const double r = mu / (2 + mu);
    double sum = 0, power = 1;
    for (int k = 0; k < 20; ++k) {
      sum += power / (2 * k + 3);
      power *= r * r;
    }
    ratio = (1 - r) / 2 * (1 - r * (1 - r) * sum);
  }
  double logarithm() const { return std::log1p(mu); }
  double mu, ratio;
};
bool IsNear(double a, double x) { return x > 0.5 * a && x < 1.5 * a; }

// log(x / a)
double LogOfQuotient(double a, double x) { return IsNear(a, x) ? std::log1p((x - a) / a) : std::log(x / a); }

// mu - log(1 + mu), where 1 + mu is `quotient`.
double DivergenceAt(double mu, double quotient) {
  return std::abs(mu) < 0.5 ? mu * mu * Distance(mu).ratio : mu - std::log(quotient);
}

// x / a - 1 - log(x / a)
double Divergence(double a, double x) { return DivergenceAt((x - a) / a, x / a); }

// x^a e^-x / Gamma(a + 1). Precondition: a > 0, x >= 0.
double GammaTerm(double a, double x) {
  if (std::isinf(a) || std::isinf(x)) return 0;
  if (a < kLarge) return std::exp(a * std::log(x) - x) / std::tgamma(a + 1);
  return std::exp(-a * Divergence(a, x) - StirlingRest(a)) / (std::sqrt(2 * kPi) * std::sqrt(a));
}

// The sum of coefficients[k] x^k.
template <size_t n, typename N>
N Polynomial(const double (&coefficients)[n], N x) {
  N sum = 0;
  for (size_t k = n; k-- > 0;) sum = sum * x + N(coefficients[k]);
  return sum;
}

// The coefficients of N. M. Temme's expansion, DLMF 8.12.7: rest(a, eta) is the sum of c_k(eta) a^-k, times
// exp(-a eta^2 / 2) / sqrt(2 pi a), and c_k(eta) the sum of coefficient[k][n] eta^n. The first ones by which
// mu is the sum of alpha[n] eta^n, from mu dmu/deta = eta (1 + linear mu - quadratic mu^2); the others by
// DLMF 8.12.11. For the gamma distribution the polynomial is 1 + mu; ExpandBeta has the beta distribution's.
struct Expansion {
  static constexpr int kOrders = 3, kPowers = 18;
  constexpr Expansion(double linear, double quadratic) {
    double alpha[kPowers + 6] = {0, 1};
    for (int n = 2; n < kPowers + 6; ++n) {
      double sum = linear * alpha[n - 1] - quadratic * alpha[n - 2];
      for (int j = 2; j < n; ++j) sum -= (j * alpha[n + 1 - j] + quadratic * alpha[n - 1 - j]) * alpha[j];
      alpha[n] = sum / (n + 1);
    }
    double c[kOrders][kPowers + 4] = {{-linear / 3}};
    for (int n = 1; n < kPowers + 4; ++n) c[0][n] = (n + 2) * alpha[n + 2] + quadratic * alpha[n];
    for (int k = 1; k < kOrders; ++k) {
      for (int n = 0; n < kPowers + 4 - 2 * k; ++n)
        c[k][n] = (n + 2) * c[k - 1][n + 2] - c[k - 1][1] * c[0][n];
    }
    for (int k = 0; k < kOrders; ++k) {
      for (int n = 0; n < kPowers; ++n) coefficient[k][n] = c[k][n];
    }
  }
  // The sum of c_k(eta) a^-k.
  template <typename N>
  N Sum(N a, N eta) const {
    N sum = 0;
    for (int k = kOrders; k-- > 0;) sum = sum / a + Polynomial(coefficient[k], eta);
    return sum;
  }
  double coefficient[kOrders][kPowers] = {};
};
constexpr Expansion kGammaExpansion(1, 0);

// Parts of the gamma distribution.
struct Parts {
  double lower, upper;
};

// Of a large a, with the distribution's term: DLMF 8.12.3 and 8.12.4. Precondition: IsNear(a, x).
Parts ExpandParts(double a, double x, double term) {
  const Distance distance(a, x);
  const double eta = distance.mu * std::sqrt(2 * distance.ratio), y = eta * std::sqrt(a / 2);
  const double rest = term * std::exp(StirlingRest(a)) * kGammaExpansion.Sum(a, eta);
  return {std::erfc(-y) / 2 - rest, std::erfc(y) / 2 + rest};
}

// The derivative of ExpandParts(a, x).lower by a, divided by GammaTerm(a, x).
double ExpandSlope(double a, double x) {
  const Distance distance(a, x);
  const double root = std::sqrt(2 * distance.ratio), eta = distance.mu * root;
  // At a constant x, a eta^2 / 2 falls by log(x / a), and eta by mu / (eta a), where mu / eta is 1 / root.
  const Dual sum = kGammaExpansion.Sum(Dual(a, 1), Dual(eta, -1 / (root * a)));
  const double normal = eta / 2 - 1 / root;
  const double rest = (distance.logarithm() - 0.5 / a) * sum.value + sum.slope;
  return std::exp(StirlingRest(a)) * (normal - rest);
}

// UpperGamma(a, x) as 1 - x^a / Gamma(1 + a) and the rest of the power series (DLMF 8.7.1) for a < 1, x <= 1,
// where 1 - LowerGamma may have no digits.
double UpperGammaOfSmall(double a, double x) {
  const double exponent = a * std::log(x) - LogGammaOfNext(a);
  double power = 1, sum = 0;
  for (int n = 1; n < 30; ++n) {
    power *= -x / n;
    sum += power / (a + n);
  }
  return -std::expm1(exponent) - std::exp(exponent) * a * sum;
}

// Whether the series is short and exact, not the fraction.
bool IsForSeries(double a, double x) { return x <= 1 || x <= a; }

// Precondition: a > 0, x >= 0.
Parts GammaParts(double a, double x) {
  const double term = GammaTerm(a, x);
  if (term == 0) return {x > a ? 1.0 : 0.0, x < a ? 1.0 : 0.0};
  if (a >= kManyTerms) return ExpandParts(a, x, term);
  if (IsForSeries(a, x)) {
    const double lower = term * LowerGammaSeries(a, x);
    if (a >= 1) return {lower, 1 - lower};
    const double upper = UpperGammaOfSmall(a, x);
    return {upper < 0.5 ? 1 - upper : lower, upper};
  }
  const double upper = term * a * UpperGammaFraction(a, x);
  return {1 - upper, upper};
}

// The derivative of LowerGamma(a, x) by a, divided by GammaTerm(a, x): from the series for LowerGamma or the
// fraction for UpperGamma, term by term. Precondition: a > 0, x > 0, both finite.
double SlopeByTerm(double a, double x) {
  if (a >= kManyTerms && IsNear(a, x)) return ExpandSlope(a, x);
  // log x - Digamma(a + 1): the derivative of the term's logarithm.
  const double growth =
      a < kLarge ? std::log(x) - Digamma(a + 1) : LogOfQuotient(a, x) + LogMinusDigamma(a) - 1 / a;
  if (IsForSeries(a, x)) {
    const Dual sum = LowerGammaSeries(Dual(a, 1), x);
    return growth * sum.value + sum.slope;
  }
  const Dual fraction = UpperGammaFraction(Dual(a, 1), x);
  return -(a * growth + 1) * fraction.value - a * fraction.slope;
}

// A point of the beta distribution with parameters a and b. Precondition: all but the excess above 0.
struct BetaPoint {
  double a, b;
  double x, y;    // x + y = 1; where one is above 1/2 and was computed from the other, it may be rounded
  double excess;  // (a + b) x - a, which is 0 at the mean: exact however close x is

  double sum() const { return a + b; }
  BetaPoint Mirrored() const { return {b, a, y, x, -excess}; }
};

BetaPoint PointOf(double a, double b, double x) {
  // What a + b loses when it is rounded counts too.
  const double sum = a + b, rounded_b = sum - a;
  const double lost = (a - (sum - rounded_b)) + (b - rounded_b);
  return {a, b, x, 1 - x, std::fma(x, sum, -a) + x * lost};
}

// log x and x^e, where y is 1 - x and the smaller one of both is not rounded.
double LogOfPart(double x, double y) { return x < 0.5 ? std::log(x) : std::log1p(-y); }
double PowerOfPart(double x, double y, double e) {
  return x < 0.5 ? std::pow(x, e) : std::pow(x, e) * std::exp(e * (1 - x - y) / x);
}

// log Gamma(a + b) - log Gamma(a) - b log(a + b) by Stirling's formula, term by term: exact also where it is
// small. Precondition: a >= kLarge, b > 0.
double GammaGrowthRest(double a, double b) {
  const double growth = std::log1p(b / a);
  double series = 0, power = 1 / a;
  for (int k = 1; k <= 8; ++k) {
    series += kBernoulli[k - 1] / (2 * k * (2 * k - 1)) * power * std::expm1((1 - 2 * k) * growth);
    power /= a * a;
  }
  return series - a * DivergenceAt(b / a, 1 + b / a) - growth / 2;
}

// log Gamma(a + b) - log Gamma(a). Precondition: a > 0, b > 0.
double GammaGrowth(double a, double b) {
  double shift = 0;
  for (; a < kLarge; a += 1) shift += std::log1p(b / a);
  return GammaGrowthRest(a, b) + b * std::log(a + b) - shift;
}

// The logarithm of how many times smaller x^a y^b is than at the mean.
double BetaDivergence(const BetaPoint& p) {
  return p.a * DivergenceAt(p.excess / p.a, p.x * (p.sum() / p.a)) +
         p.b * DivergenceAt(-p.excess / p.b, p.y * (p.sum() / p.b));
}

double PowersOf(const BetaPoint& p) { return PowerOfPart(p.x, p.y, p.a) * PowerOfPart(p.y, p.x, p.b); }

// Whether the logarithm of a term has fewer digits than its powers, and these do not underflow.
bool IsForPowers(const BetaPoint& p, double log_term) {
  return log_term < -20 && p.a * LogOfPart(p.x, p.y) + p.b * LogOfPart(p.y, p.x) > -690;
}

// x^a y^b / B(a, b)
double BetaTerm(const BetaPoint& p) {
  const double a = p.a, b = p.b, sum = p.sum();
  if (b < a) return BetaTerm(p.Mirrored());
  if (a >= kLarge) {
    const double rests = StirlingRest(sum) - StirlingRest(a) - StirlingRest(b);
    return std::exp(rests - BetaDivergence(p)) * std::sqrt(a / sum * b / (2 * kPi));
  }
  if (b < kLarge) {
    const double gammas = std::tgamma(sum + 1) / (std::tgamma(a + 1) * std::tgamma(b + 1));
    return PowersOf(p) * gammas * (a * (b / sum));
  }
  const double log_x = p.x < 0.5 ? std::log(p.x * sum) : std::log1p(-p.y) + std::log(sum);
  const double rest = GammaGrowthRest(b, a), factor = a / std::tgamma(a + 1);
  const double exponent = a * log_x + b * LogOfPart(p.y, p.x) + rest;
  if (sum < 1e30 && IsForPowers(p, exponent)) return PowersOf(p) * std::pow(sum, a) * std::exp(rest) * factor;
  return std::exp(exponent) * factor;
}

// What BetaTerm is divided by: the even part of the continued fraction DLMF 8.17.22, by Lentz's method.
// Precondition: excess < y - x, where it converges fast.
double BetaFraction(const BetaPoint& p) {
  const double a = p.a, b = p.b, x = p.x;
  double fraction = a * (1 - p.excess) / (a + 1), c = fraction, d = 0;
  for (int m = 1; m < kMostTerms; ++m) {
    const double odd = a + (2 * m - 1);
    const double part = m * ((b - m) * x) / odd;
    const double numerator = (a + (m - 1)) / odd * ((p.sum() + (m - 1)) * x) * part;
    const double denominator = (a + m) * (1 - p.excess + m * (1 + p.y)) / (odd + 2) + m + part;
    d = 1 / (numerator * d + denominator);
    c = denominator + numerator / c;
    fraction *= c * d;
    if (std::abs(c * d - 1) <= kEpsilon) break;
  }
  return fraction;
}

// Precondition: excess < y - x.
double LowerBeta(const BetaPoint& p) {
  const double term = BetaTerm(p);
  return term == 0 ? 0 : std::min(1.0, term / BetaFraction(p));
}

// As 1 - y^b / (b B(a, b)) and the rest of the power series (DLMF 8.17.7) for b < 1, excess >= y - x, where
// 1 - LowerBeta of the mirrored point may have no digits.
double LowerBetaOfSmall(const BetaPoint& p) {
  const double exponent = p.b * LogOfPart(p.y, p.x) + GammaGrowth(p.a, p.b) - LogGammaOfNext(p.b);
  double power = 1, sum = 0;
  for (int n = 1; n < kMostTerms; ++n) {
    power *= (n - p.a) / n * p.y;
    const double term = power / (p.b + n);
    sum += term;
    if (IsNegligible(term, sum)) break;
  }
  return -std::expm1(exponent) - std::exp(exponent) * p.b * sum;
}

// Of large a and b: DLMF 8.12.3 with the beta distribution's own expansion. `variance` is a b / (a + b).
double ExpandBeta(const BetaPoint& p, double variance) {
  const double exponent = BetaDivergence(p);
  if (exponent > 750) return p.excess < 0 ? 0 : 1;  // of a double
  const double y = std::copysign(std::sqrt(exponent), p.excess);
  const double first = p.a / p.sum(), second = p.b / p.sum();
  const Expansion expansion(second - first, first * second);
  const double rest = expansion.Sum(variance, y / std::sqrt(variance / 2)) / std::sqrt(2 * kPi * variance);
  return std::erfc(-y) / 2 - std::exp(-exponent) * rest;
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

// The normal quantile of a probability, by how far it is from 1/2 and from the nearer one of 0 and 1: each of
// them has digits where the probability itself has lost them.
double QuantileAt(double from_centre, double tail) {
  if (std::abs(from_centre) <= 0.425) {
    return from_centre * kCentre(0.180625 - from_centre * from_centre);  // 0.425^2
  }
  if (tail == 0) return from_centre < 0 ? -kInfinity : kInfinity;
  const double r = std::sqrt(-std::log(tail));
  const double distance = r <= 5 ? kTail(r - 1.6) : kFarTail(r - 5);
  return from_centre < 0 ? -distance : distance;
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
  return std::log(x) - LogMinusDigamma(x) - shift;
}

double LowerGamma(double a, double x) {
  if (x == 0) return 0;
  return a > 0 && x > 0 ? GammaParts(a, x).lower : kNan;
}

double UpperGamma(double a, double x) { return a > 0 && x >= 0 ? GammaParts(a, x).upper : kNan; }

double LowerGammaSlope(double a, double x) {
  if (x == 0) return 0;
  if (!(a > 0) || !(x > 0)) return kNan;
  const double term = GammaTerm(a, x);
  return term == 0 ? 0 : term * SlopeByTerm(a, x);
}

// The density x^(a-1) e^-x / Gamma(a) is GammaTerm(a, x) a / x.
double GammaSampleSlope(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return kNan;
  if (x == 0) return 0;
  return -SlopeByTerm(a, x) * x / a;
}

// Terms of negative numbers are those of positive ones, up to the sign, and the sum of many is the difference
// of two that have no end. Precondition: x is whole, q < -kLarge and is not.
static double ZetaOfLargeNegative(double x, double q) {
  const double num_terms = std::floor(-q - kLarge) + 1;
  const double sign = std::fmod(x, 2) == 0 ? 1 : -1;
  return sign * (Zeta(x, -q - num_terms + 1) - Zeta(x, 1 - q)) + Zeta(x, q + num_terms);
}

double Zeta(double x, double q) {
  if (x == 1) return kInfinity;
  if (!(x > 1) || std::isnan(q)) return kNan;
  if (q <= 0) {
    const bool is_whole = x == std::floor(x);
    if (q == std::floor(q)) return is_whole && std::fmod(x, 2) == 0 ? kInfinity : kNan;
    if (!is_whole) return kNan;
    if (q < -kLarge) return ZetaOfLargeNegative(x, q);
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
  return QuantileAt(from_centre, from_centre < 0 ? probability : 1 - probability);
}

double InverseErf(double x) {
  if (!(std::abs(x) <= 1)) return kNan;
  return QuantileAt(x / 2, (1 - std::abs(x)) / 2) / std::numbers::sqrt2;
}

double IncompleteBeta(double a, double b, double x) {
  if (a <= 0 || b <= 0) return kNan;
  if (x == 0 || x == 1) return std::abs(x);
  if (std::isnan(a) || std::isnan(b) || !(x > 0 && x < 1)) return kNan;
  if (std::isinf(a) || std::isinf(b)) return a == b ? kNan : a < b ? 1 : 0;
  // So large that their sum is infinite, they may as well be halves of themselves.
  const BetaPoint point = std::isinf(a + b) ? PointOf(a / 2, b / 2, x) : PointOf(a, b, x);
  const double variance = point.a / point.sum() * point.b;
  if (variance >= kManyTerms) return ExpandBeta(point, variance);
  if (point.excess < point.y - point.x) return LowerBeta(point);
  return b < 1 ? LowerBetaOfSmall(point) : 1 - LowerBeta(point.Mirrored());
}

}  // namespace weir
