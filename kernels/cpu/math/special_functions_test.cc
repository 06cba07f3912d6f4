// Functions whose results are small numbers, of which every digit counts: relative errors, which the
// conformance suite does not see. The numbers are mpmath's, in 80 digits.
#include "kernels/cpu/math/special_functions.h"

#include <cmath>

#include "gtest/gtest.h"

namespace weir {
namespace {

double RelativeError(double found, double wanted) { return std::abs(found - wanted) / wanted; }

TEST(SpecialFunctionsTest, IncompleteBetaIsExactInItsTails) {
  struct {
    double a, b, x, value;
  } const cases[] = {
      {0.125, 0.125, 1e-12, 0.016159449562098212},     {0.5, 1e-6, 0.75, 2.6339108212638441e-6},
      {1e-6, 40, 0.01, 0.99999929257090408},           {1e-9, 1e-9, 0.999, 0.50000000345337738},
      {30, 60, 0.01, 2.5287654584015802e-37},          {50, 0.25, 0.999, 0.48431395407252454},
      {200, 300, 0.25, 1.0169531065276603e-13},        {900, 0.25, 0.9, 6.1651007308678217e-44},
      {65.25, 0x1p-15, 0.125, 6.3163690283704362e-66}, {1e5, 1e5, 0.497, 0.0036449523647139963}};
  for (const auto& [a, b, x, value] : cases) {
    // In a tail of two large parameters the error grows with the result's logarithm.
    const double allowed = a < 10 || b < 10 ? 1e-15 : 1e-15 * (1 - std::log(value));
    EXPECT_LT(RelativeError(IncompleteBeta(a, b, x), value), allowed) << a << " " << b << " " << x;
    EXPECT_LE(IncompleteBeta(a, b, x), 1);
  }
}

// By DLMF 25.11.4 they are what the terms up to a positive number add to that number's; mpmath's, in 40
// digits.
TEST(SpecialFunctionsTest, ZetaOfNegativeNumbersTakesAsLongAsOthers) {
  struct {
    double x, q, value;
  } const cases[] = {{2, -99999.5, 9.8695944010893587},
                     {3, -12.25, -62.009482333729292},
                     {2, -1000000000.25, 19.739208801178717},
                     {3, -99999.75, 62.01255336064964},
                     {8, -10.5, 512.07945165375917},
                     {2, -2.5, 9.5392466449891238},
                     {5, -1000000000000.25, -1020.0656159509382}};
  for (const auto& [x, q, value] : cases) {
    EXPECT_LT(std::abs(Zeta(x, q) / value - 1), 1e-14) << x << " " << q;
  }
}

TEST(SpecialFunctionsTest, InverseErfIsExactForSmallNumbersAndNearOne) {
  struct {
    double x, value;
  } const cases[] = {{1e-300, 8.8622692545275804e-301}, {1e-20, 8.8622692545275797e-21},
                     {1e-5, 8.8622692547595945e-6},     {0.5, 0.47693627620446987},
                     {0.85, 1.0179024648320276},        {0.999, 2.3267537655135245},
                     {1 - 1e-12, 5.0420318985726961},   {1 - 0x1p-53, 5.8635847487551679}};
  for (const auto& [x, value] : cases) {
    EXPECT_LT(RelativeError(InverseErf(x), value), 8e-16) << x;
    EXPECT_LT(RelativeError(-InverseErf(-x), value), 8e-16) << x;
  }
}

}  // namespace
}  // namespace weir
