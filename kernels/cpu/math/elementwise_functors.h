// The arithmetic of every elementwise op, one functor per op, for one element.
//
// A functor is a template over the element type; the loops (binary_loops.cc, unary_loops.cc: once per
// instruction set; rare_loops.cc: once) instantiate it for the dtypes the op takes. Integers wrap around. A
// binary functor whose second operand may be refused has `static bool Accepts(T y)`; its loop fails then and
// the kernel says why. Semantics are TensorFlow's (tensorflow.org/api_docs/python/tf/raw_ops); NaN operands
// give NaN, also in Maximum, Minimum and Sign.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace weir::elementwise {

template <typename T>
struct IsComplexType : std::false_type {};
template <typename T>
struct IsComplexType<std::complex<T>> : std::true_type {};
template <typename T>
inline constexpr bool kIsComplex = IsComplexType<T>::value;

// Unsigned arithmetic wraps where signed overflow is undefined; at least 32 bits, so that nothing is promoted
// to int.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

struct Add {
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wrapping<T>(x) + Wrapping<T>(y));
    else
      return x + y;
  }
};

struct Sub {
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wrapping<T>(x) - Wrapping<T>(y));
    else
      return x - y;
  }
};

struct Mul {
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wrapping<T>(x) * Wrapping<T>(y));
    else
      return x * y;
  }
};

// Integers round towards zero.
struct Div {
  template <typename T>
  static bool Accepts(T y) {
    if constexpr (std::is_integral_v<T>)
      return y != 0;
    else
      return true;
  }
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      if (y == -1) return Sub()(T{0}, x);  // the smallest number divided by -1 overflows
    }
    return static_cast<T>(x / y);
  }
};

struct FloorDiv {
  template <typename T>
  static bool Accepts(T y) {
    return Div::Accepts(y);
  }
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::floor(x / y);
    } else {
      const T quotient = Div()(x, y);
      const bool rounded_up = std::is_signed_v<T> && (x < 0) != (y < 0) && Mul()(quotient, y) != x;
      return rounded_up ? static_cast<T>(quotient - 1) : quotient;
    }
  }
};

// The result has the sign of y.
struct FloorMod {
  template <typename T>
  static bool Accepts(T y) {
    return Div::Accepts(y);
  }
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = std::fmod(x, y);
      return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    } else {
      if constexpr (std::is_signed_v<T>) {
        if (y == -1) return 0;
      }
      const T rest = static_cast<T>(x % y);
      return std::is_signed_v<T> && rest != 0 && (rest < 0) != (y < 0) ? static_cast<T>(rest + y) : rest;
    }
  }
};

struct DivNoNan {
  template <typename T>
  T operator()(T x, T y) const {
    return y == T(0) ? T(0) : x / y;
  }
};

struct Pow {
  template <typename T>
  static bool Accepts(T y) {
    if constexpr (std::is_integral_v<T>)
      return y >= 0;
    else
      return true;
  }
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      T result = 1;
      for (T factor = x; y > 0; y = static_cast<T>(y / 2), factor = Mul()(factor, factor)) {
        if (y % 2 != 0) result = Mul()(result, factor);
      }
      return result;
    } else {
      return std::pow(x, y);
    }
  }
};

struct Maximum {
  template <typename T>
  T operator()(T x, T y) const {
    return x > y || x != x ? x : y;
  }
};

struct Minimum {
  template <typename T>
  T operator()(T x, T y) const {
    return x < y || x != x ? x : y;
  }
};

struct SquaredDifference {
  template <typename T>
  T operator()(T x, T y) const {
    const T difference = Sub()(x, y);
    if constexpr (kIsComplex<T>)
      return std::conj(difference) * difference;
    else
      return Mul()(difference, difference);
  }
};

// y is the op's output, dy the gradient that flows into it. Nothing is conjugated: TensorFlow's gradient
// function passes y conjugated where numbers are complex.
struct TanhGrad {
  template <typename T>
  T operator()(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

struct SigmoidGrad {
  template <typename T>
  T operator()(T y, T dy) const {
    return dy * y * (T(1) - y);
  }
};

struct Equal {
  template <typename T>
  bool operator()(const T& x, const T& y) const {
    return x == y;
  }
};

struct NotEqual {
  template <typename T>
  bool operator()(const T& x, const T& y) const {
    return x != y;
  }
};

struct Less {
  template <typename T>
  bool operator()(T x, T y) const {
    return x < y;
  }
};

struct LessEqual {
  template <typename T>
  bool operator()(T x, T y) const {
    return x <= y;
  }
};

struct Greater {
  template <typename T>
  bool operator()(T x, T y) const {
    return x > y;
  }
};

struct GreaterEqual {
  template <typename T>
  bool operator()(T x, T y) const {
    return x >= y;
  }
};

struct LogicalAnd {
  bool operator()(bool x, bool y) const { return x & y; }
};

struct LogicalOr {
  bool operator()(bool x, bool y) const { return x | y; }
};

struct Neg {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return Sub()(T{0}, x);
    else
      return -x;
  }
};

struct Square {
  template <typename T>
  T operator()(T x) const {
    return Mul()(x, x);
  }
};

struct Sqrt {
  template <typename T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};

struct Rsqrt {
  template <typename T>
  T operator()(T x) const {
    return T(1) / std::sqrt(x);
  }
};

struct Reciprocal {
  template <typename T>
  static bool AcceptsX(T x) {
    return Div::Accepts(x);
  }
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return Div()(T{1}, x);
    else
      return T(1) / x;
  }
};

struct Exp {
  template <typename T>
  T operator()(T x) const {
    return std::exp(x);
  }
};

struct Log {
  template <typename T>
  T operator()(T x) const {
    return std::log(x);
  }
};

struct Log1p {
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>)
      return std::log(T(1) + x);
    else
      return std::log1p(x);
  }
};

struct Abs {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg()(x) : x;
    else
      return std::abs(x);
  }
};

struct Sign {
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>)
      return x == T(0) ? x : x / std::abs(x);
    else
      return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  }
};

struct Floor {
  template <typename T>
  T operator()(T x) const {
    return std::floor(x);
  }
};

struct Tanh {
  template <typename T>
  T operator()(T x) const {
    return std::tanh(x);
  }
};

struct Sigmoid {
  template <typename T>
  T operator()(T x) const {
    return T(1) / (T(1) + std::exp(-x));
  }
};

struct LogicalNot {
  bool operator()(bool x) const { return !x; }
};

struct IsFinite {
  template <typename T>
  bool operator()(T x) const {
    return std::abs(x) <= std::numeric_limits<T>::max();
  }
};

struct IsNan {
  template <typename T>
  bool operator()(T x) const {
    return x != x;
  }
};

}  // namespace weir::elementwise
