// The elementwise ops of one operand (elementwise_op.h says how an entry reads).
#pragma once

#include <cmath>
#include <limits>
#include <tuple>

#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/elementwise_op.h"
#include "kernels/cpu/math/functions.h"
#include "kernels/cpu/math/higher_functions.h"
#include "kernels/cpu/math/special_functions.h"

namespace weir::elementwise {

// 1 / x
struct Inverse {
  template <typename T>
  T operator()(T x) const {
    return Div()(T(1), x);
  }
};

inline constexpr std::tuple kUnaryTable{
    Unary<kFloats | kSignedInts | kComplex>("Neg", 0.3f, Neg()),
    Unary<kNumbers>("Square", 0.3f, []<typename T>(T x) { return Mul()(x, x); }),
    Unary<kFloats | kSignedInts>("Abs", 0.3f, Abs()),
    Unary<kFloats | kSignedInts | kComplex>("Sign", 0.4f, Sign()),
    Unary<kFloats | kSignedInts | kComplex, Refused::kZero>("Reciprocal", 0.5f, Inverse()),
    Unary<kFloats | kSignedInts | kComplex, Refused::kZero>("Inv", 0.5f, Inverse()),
    Unary<kInexact>("Sqrt", 0.6f, Sqrt()),
    Unary<kInexact>("Rsqrt", 1.0f, []<typename T>(T x) { return T(1) / std::sqrt(x); }),
    Unary<kIntegers>("Invert", 0.3f, []<typename T>(T x) { return ~x; }),
    Unary<kBool>("LogicalNot", 0.3f, [](bool x) { return !x; }),

    // Rounding: Round and Rint to the nearest, halves to the even one.
    Unary<kFloats>("Floor", 0.3f, []<typename T>(T x) { return std::floor(x); }),
    Unary<kFloats>("Ceil", 0.3f, []<typename T>(T x) { return std::ceil(x); }),
    Unary<kFloats>("Rint", 0.3f, []<typename T>(T x) { return std::nearbyint(x); }),
    Unary<kFloats | kMainInts>("Round", 0.3f,
                               []<typename T>(T x) {
                                 if constexpr (std::is_integral_v<T>)
                                   return x;
                                 else
                                   return std::nearbyint(x);
                               }),

    Unary<kFloats>("IsFinite", 0.3f,
                   []<typename T>(T x) { return std::abs(x) <= std::numeric_limits<T>::max(); }),
    Unary<kFloats>("IsInf", 0.3f,
                   []<typename T>(T x) { return std::abs(x) == std::numeric_limits<T>::infinity(); }),
    Unary<kFloats>("IsNan", 0.3f, []<typename T>(T x) { return x != x; }),

    Transcendental<kInexact, VectorForm::kExp>("Exp", 1.0f, Exp()),
    Transcendental<kInexact, VectorForm::kLog>("Log", 1.5f, Log()),
    Transcendental<kInexact, VectorForm::kLog1p>("Log1p", 2.0f,
                                                 []<typename T>(T x) {
                                                   if constexpr (kIsComplex<T>)
                                                     return std::log(T(1) + x);
                                                   else
                                                     return std::log1p(x);
                                                 }),
    Transcendental<kInexact, VectorForm::kTanh>("Tanh", 2.0f, Tanh()),
    Transcendental<kInexact, VectorForm::kSigmoid>("Sigmoid", 1.5f, Sigmoid()),

    Transcendental<kInexact, VectorForm::kExpm1>("Expm1", 1.5f,
                                                 []<typename T>(T x) {
                                                   if constexpr (kIsComplex<T>)
                                                     return std::exp(x) - T(1);
                                                   else
                                                     return std::expm1(x);
                                                 }),
    LibraryCall<kInexact>("Sin", 6.0f, []<typename T>(T x) { return std::sin(x); }),
    LibraryCall<kInexact>("Cos", 6.0f, []<typename T>(T x) { return std::cos(x); }),
    LibraryCall<kInexact>("Tan", 10.0f, []<typename T>(T x) { return std::tan(x); }),
    LibraryCall<kInexact>("Asin", 8.0f, []<typename T>(T x) { return std::asin(x); }),
    LibraryCall<kInexact>("Acos", 8.0f, []<typename T>(T x) { return std::acos(x); }),
    LibraryCall<kInexact>("Atan", 8.0f, []<typename T>(T x) { return std::atan(x); }),
    LibraryCall<kInexact>("Sinh", 10.0f, []<typename T>(T x) { return std::sinh(x); }),
    LibraryCall<kInexact>("Cosh", 10.0f, []<typename T>(T x) { return std::cosh(x); }),
    LibraryCall<kInexact>("Asinh", 15.0f, []<typename T>(T x) { return std::asinh(x); }),
    LibraryCall<kInexact>("Acosh", 15.0f, []<typename T>(T x) { return std::acosh(x); }),
    LibraryCall<kInexact>("Atanh", 15.0f, []<typename T>(T x) { return std::atanh(x); }),
    LibraryCall<kFloats>("Erf", 8.0f, []<typename T>(T x) { return std::erf(x); }),
    LibraryCall<kFloats>("Erfc", 12.0f, []<typename T>(T x) { return std::erfc(x); }),
    LibraryCall<kFloats>("Erfinv", 10.0f, []<typename T>(T x) { return T(InverseErf(x)); }),
    LibraryCall<kFloats>("Ndtri", 10.0f, []<typename T>(T x) { return T(NormalQuantile(x)); }),
    LibraryCall<kFloats>("Lgamma", 25.0f, []<typename T>(T x) { return T(LogGamma(x)); }),
    LibraryCall<kFloats>("Digamma", 25.0f, []<typename T>(T x) { return T(Digamma(x)); }),
    LibraryCall<kFloats>("BesselI0e", 40.0f, []<typename T>(T x) { return T(weir::ScaledBesselI(0, x)); }),
    LibraryCall<kFloats>("BesselI1e", 40.0f, []<typename T>(T x) { return T(weir::ScaledBesselI(1, x)); }),
    LibraryCall<kFloats>("BesselI0", 40.0f, []<typename T>(T x) { return T(weir::BesselI(0, x)); }),
    LibraryCall<kFloats>("BesselI1", 40.0f, []<typename T>(T x) { return T(weir::BesselI(1, x)); }),
    LibraryCall<kFloats>("BesselK0e", 200.0f, []<typename T>(T x) { return T(weir::ScaledBesselK(0, x)); }),
    LibraryCall<kFloats>("BesselK1e", 200.0f, []<typename T>(T x) { return T(weir::ScaledBesselK(1, x)); }),
    LibraryCall<kFloats>("BesselK0", 200.0f, []<typename T>(T x) { return T(weir::BesselK(0, x)); }),
    LibraryCall<kFloats>("BesselK1", 200.0f, []<typename T>(T x) { return T(weir::BesselK(1, x)); }),
    LibraryCall<kFloats>("BesselJ0", 50.0f, []<typename T>(T x) { return T(weir::BesselJ(0, x)); }),
    LibraryCall<kFloats>("BesselJ1", 50.0f, []<typename T>(T x) { return T(weir::BesselJ(1, x)); }),
    LibraryCall<kFloats>("BesselY0", 80.0f, []<typename T>(T x) { return T(weir::BesselY(0, x)); }),
    LibraryCall<kFloats>("BesselY1", 80.0f, []<typename T>(T x) { return T(weir::BesselY(1, x)); }),
    LibraryCall<kFloats>("Dawsn", 300.0f, []<typename T>(T x) { return T(weir::DawsonIntegral(x)); }),
    LibraryCall<kFloats>("Expint", 100.0f, []<typename T>(T x) { return T(weir::ExponentialIntegral(x)); }),
    LibraryCall<kFloats>("FresnelCos", 200.0f, []<typename T>(T x) { return T(weir::FresnelCosine(x)); }),
    LibraryCall<kFloats>("FresnelSin", 200.0f, []<typename T>(T x) { return T(weir::FresnelSine(x)); }),
    LibraryCall<kFloats>("Spence", 50.0f, []<typename T>(T x) { return T(weir::Spence(x)); }),
};

}  // namespace weir::elementwise
