// The activations and their gradients (math/elementwise_op.h says how an entry reads).
//
// A gradient's operands are the gradient dy that flows into the activation, and its feature x or its result
// y.
#pragma once

#include <cmath>
#include <tuple>

#include "kernels/cpu/math/elementwise_op.h"
#include "kernels/cpu/math/functions.h"

namespace weir::elementwise {

// Klambauer et al., Self-Normalizing Neural Networks (2017): scale, and scale * alpha.
inline constexpr double kSeluScale = 1.0507009873554805;
inline constexpr double kSeluScaledAlpha = 1.7580993408473769;

inline constexpr std::tuple kActivationTable{
    Unary<kReals>("Relu", 0.2f, Relu()),
    Unary<kReals>("Relu6", 0.2f, []<typename T>(T x) { return x < T(0)   ? T(0)
                                                              : x > T(6) ? T(6)
                                                                         : x; }),
    Unary<kFloats>("Softsign", 0.6f, []<typename T>(T x) { return x / (T(1) + std::abs(x)); }),
    Transcendental<kFloats, VectorForm::kElu>("Elu", 1.5f,
                                              []<typename T>(T x) { return x < T(0) ? std::expm1(x) : x; }),
    LibraryCall<kFloats>(
        "Selu", 5.0f,
        []<typename T>(T x) { return x < T(0) ? T(kSeluScaledAlpha) * std::expm1(x) : T(kSeluScale) * x; }),
    // log(1 + exp(x)) without overflow.
    Transcendental<kFloats, VectorForm::kSoftplus>(
        "Softplus", 2.5f,
        []<typename T>(T x) { return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::abs(x))); }),
};

inline constexpr std::tuple kActivationGradTable{
    FusedGrad<kReals>("ReluGrad", 0.2f, ReluGrad()),
    FusedGrad<kReals>("Relu6Grad", 0.2f,
                      []<typename T>(T dy, T x) { return TimesOneIf((x > T(0)) & (x < T(6)), dy); }),
    FusedGrad<kFloats>("SoftsignGrad", 0.6f,
                       []<typename T>(T dy, T x) {
                         const T one_plus = T(1) + std::abs(x);
                         return dy / (one_plus * one_plus);
                       }),
    FusedGrad<kFloats>("EluGrad", 0.4f,
                       []<typename T>(T dy, T y) { return y < T(0) ? dy * (y + T(1)) : dy; }),
    FusedGrad<kFloats>(
        "SeluGrad", 0.4f,
        []<typename T>(T dy, T y) { return y < T(0) ? dy * (y + T(kSeluScaledAlpha)) : dy * T(kSeluScale); }),
    FusedGrad<kFloats>("SoftplusGrad", 5.0f,
                       []<typename T>(T dy, T x) { return dy / (T(1) + std::exp(-x)); }),
};

}  // namespace weir::elementwise
