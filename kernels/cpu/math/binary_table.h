// The elementwise ops of two operands (elementwise_op.h says how an entry reads).
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/elementwise_op.h"
#include "kernels/cpu/math/functions.h"
#include "kernels/cpu/math/special_functions.h"

namespace weir::elementwise {

// By how many bits an integer can be shifted: shifts by less than none and by more than all are defined here,
// which C++ leaves open.
template <typename T>
int ShiftOf(T y) {
  constexpr int kMost = 8 * sizeof(T) - 1;
  return y < T(0) ? 0 : y > T(kMost) ? kMost : static_cast<int>(y);
}

inline constexpr std::tuple kBinaryTable{
    Binary<kNumbers | kString>("Add", 0.4f, Add()),
    Binary<kNumbers>("AddV2", 0.4f, Add()),
    Binary<kNumbers>("Sub", 0.4f, Sub()),
    Binary<kNumbers>("Mul", 0.4f, Mul()),
    Binary<kInexact>("MulNoNan", 0.5f, []<typename T>(T x, T y) { return y == T(0) ? T(0) : x * y; }),
    Binary<kFloats | kMainInts | kComplex>("SquaredDifference", 0.4f,
                                           []<typename T>(T x, T y) {
                                             const T difference = Sub()(x, y);
                                             return Mul()(Conj()(difference), difference);
                                           }),
    Binary<kReals>("Maximum", 0.4f, Maximum()),
    Binary<kReals>("Minimum", 0.4f, Minimum()),

    Binary<kNumbers, Refused::kZero>("Div", {0.5f, 2.0f}, Div()),
    Binary<kInexact>("RealDiv", 0.5f, Div()),
    Binary<kReals, Refused::kZero>("FloorDiv", {0.6f, 3.0f}, FloorDiv()),
    Binary<kReals, Refused::kZero>("FloorMod", {10.0f, 3.0f}, FloorMod()),
    Binary<kReals, Refused::kZero>("TruncateDiv", {0.6f, 2.0f}, TruncateDiv()),
    Binary<kFloats | kMainInts, Refused::kZero>("TruncateMod", {10.0f, 2.0f}, TruncateMod()),
    Binary<kFloats | kMainInts, Refused::kZero>("Mod", {10.0f, 2.0f}, TruncateMod()),
    Binary<kInexact>("DivNoNan", 0.5f, []<typename T>(T x, T y) { return y == T(0) ? T(0) : x / y; }),
    Binary<kInexact>("Xdivy", 0.5f, []<typename T>(T x, T y) { return x == T(0) ? T(0) : x / y; }),

    LibraryCall<kFloats | kSignedInts | kComplex, Refused::kNegative>("Pow", {15.0f, 5.0f}, Pow()),
    LibraryCall<kFloats>("Atan2", 15.0f, []<typename T>(T y, T x) { return std::atan2(y, x); }),
    LibraryCall<kFloats>("NextAfter", 5.0f, []<typename T>(T x, T y) { return std::nextafter(x, y); }),
    LibraryCall<kInexact>("Xlogy", 8.0f,
                          []<typename T>(T x, T y) { return x == T(0) ? T(0) : x * std::log(y); }),
    LibraryCall<kInexact>("Xlog1py", 8.0f,
                          []<typename T>(T x, T y) {
                            if (x == T(0)) return T(0);
                            if constexpr (kIsComplex<T>)
                              return x * std::log(T(1) + y);
                            else
                              return x * std::log1p(y);
                          }),
    LibraryCall<kFloats>("RandomGammaGrad", 300.0f,
                         []<typename T>(T alpha, T sample) { return T(GammaSampleSlope(alpha, sample)); }),
    LibraryCall<kFloats>("Igamma", 200.0f, []<typename T>(T a, T x) { return T(LowerGamma(a, x)); }),
    LibraryCall<kFloats>("Igammac", 200.0f, []<typename T>(T a, T x) { return T(UpperGamma(a, x)); }),
    LibraryCall<kFloats>("IgammaGradA", 300.0f,
                         []<typename T>(T a, T x) { return T(LowerGammaSlope(a, x)); }),
    LibraryCall<kFloats>("Zeta", 100.0f, []<typename T>(T x, T q) { return T(Zeta(x, q)); }),
    LibraryCall<kFloats>("Polygamma", 100.0f, []<typename T>(T n, T x) { return T(Polygamma(n, x)); }),

    Binary<kIntegers>("BitwiseAnd", 0.4f, []<typename T>(T x, T y) { return x & y; }),
    Binary<kIntegers>("BitwiseOr", 0.4f, []<typename T>(T x, T y) { return x | y; }),
    Binary<kIntegers>("BitwiseXor", 0.4f, []<typename T>(T x, T y) { return x ^ y; }),
    Binary<kIntegers>("LeftShift", 0.5f, []<typename T>(T x, T y) { return Wrapping<T>(x) << ShiftOf(y); }),
    Binary<kIntegers>("RightShift", 0.5f, []<typename T>(T x, T y) { return x >> ShiftOf(y); }),

    Binary<kNumbers | kBool | kString>("Equal", 0.3f, [](const auto& x, const auto& y) { return x == y; }),
    Binary<kNumbers | kBool | kString>("NotEqual", 0.3f, [](const auto& x, const auto& y) { return x != y; }),
    Binary<kReals>("Less", 0.3f, []<typename T>(T x, T y) { return x < y; }),
    Binary<kReals>("LessEqual", 0.3f, []<typename T>(T x, T y) { return x <= y; }),
    Binary<kReals>("Greater", 0.3f, []<typename T>(T x, T y) { return x > y; }),
    Binary<kReals>("GreaterEqual", 0.3f, []<typename T>(T x, T y) { return x >= y; }),
    Binary<kBool>("LogicalAnd", 0.3f, LogicalAnd()),
    Binary<kBool>("LogicalOr", 0.3f, LogicalOr()),

    // Gradients of functions: y is the function's result, dy the gradient that flows into it.
    // Nothing is conjugated in these two: TensorFlow's gradient function passes y conjugated where numbers
    // are complex.
    FusedGrad<kInexact>("TanhGrad", 0.4f, TanhGrad()),
    FusedGrad<kInexact>("SigmoidGrad", 0.4f, SigmoidGrad()),
    FusedGrad<kInexact>("SqrtGrad", 0.5f, []<typename T>(T y, T dy) { return T(0.5) * dy / Conj()(y); }),
    FusedGrad<kInexact>("RsqrtGrad", 0.5f,
                        []<typename T>(T y, T dy) {
                          const T z = Conj()(y);
                          return T(-0.5) * dy * (z * z * z);
                        }),
    FusedGrad<kInexact>("ReciprocalGrad", 0.4f,
                        []<typename T>(T y, T dy) { return -dy * Conj()(y) * Conj()(y); }),
    FusedGrad<kInexact>("InvGrad", 0.4f, []<typename T>(T y, T dy) { return -dy * Conj()(y) * Conj()(y); }),
};

}  // namespace weir::elementwise
