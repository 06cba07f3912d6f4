// Functions whose results are small numbers, of which every digit counts: relative errors, which the
// conformance suite does not see. The numbers are mpmath's, in 80 digits.
#include "kernels/cpu/math/special_functions.h"

#include <cmath>

#include "gtest/gtest.h"

namespace weir {
namespace {

double RelativeError(double found, double wanted) { return std::abs(found - wanted) / wanted; }

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
