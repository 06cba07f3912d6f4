// The gamma function's family, the incomplete beta function and the normal distribution's quantiles, for real
// arguments in double.
//
// NaN where a function is not defined. At poles: infinity where TensorFlow gives it, else NaN.
// Sources: NIST Digital Library of Mathematical Functions, chapters 5, 8 and 25 (https://dlmf.nist.gov);
// M. J. Wichura, Algorithm AS 241, Applied Statistics 37 (1988), 477-484.
#pragma once

namespace weir {

// log |Gamma(x)|
double LogGamma(double x);
// The derivative of log Gamma.
double Digamma(double x);
// Hurwitz's zeta function, the sum of (q + k)^-x over k = 0, 1, 2...; x > 1. NaN for q < 0 unless x is whole.
double Zeta(double x, double q);
// The incomplete gamma function: the integral of t^(a-1) e^-t from 0 to x, divided by Gamma(a). NaN unless
// a > 0 and x >= 0; at x = 0 it is 0 for every a, as TensorFlow has it. The relative error of these three was
// below 1e-14 for a between 1e-12 and 1e5; in a tail it is as many times larger as the result's logarithm.
double LowerGamma(double a, double x);
// The same from x to infinity: 1 - LowerGamma, exact where that is small. Of two infinities TensorFlow's 0.
double UpperGamma(double a, double x);
// The derivative of LowerGamma by a.
double LowerGammaSlope(double a, double x);
// How fast a sample x of the gamma distribution with shape a and rate 1 moves with a when it stays at its
// place in the distribution P: -(dP/da) / (dP/dx). NaN unless a > 0 and x >= 0.
double GammaSampleSlope(double a, double x);
// The n-th derivative of Digamma; n = 0, 1, 2...
double Polygamma(double n, double x);
// The number below which a standard normal variable lies with that probability. 0 gives -infinity, 1
// infinity; NaN outside [0, 1].
double NormalQuantile(double probability);
// The number whose error function is x, exact also for small x. -1 gives -infinity, 1 infinity; NaN outside
// [-1, 1].
double InverseErf(double x);
// The incomplete beta function: the integral of t^(a-1) (1-t)^(b-1) from 0 to x, divided by that to 1. NaN
// unless a > 0, b > 0 and x is in [0, 1]; but at x = 0 and x = 1, where it is x, a and b may be NaN, as
// TensorFlow has it. The relative error was below 1e-14 for a and b between 1e-12 and 3e6; where both are
// above 10, it is as many times larger in a tail as the result's logarithm.
double IncompleteBeta(double a, double b, double x);

}  // namespace weir
