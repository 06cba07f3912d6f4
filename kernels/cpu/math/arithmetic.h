// Arithmetic for elements of every type, that elementwise ops and reductions are made of.
//
// Integers wrap around, and round towards zero when divided. NaN operands give NaN, also in Maximum, Minimum
// and Sign. Semantics are TensorFlow's (tensorflow.org/api_docs/python/tf/raw_ops).
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/math/elementwise_op.h"
#include "kernels/host_device.h"

namespace weir::elementwise {

// Unsigned arithmetic wraps where signed overflow is undefined; at least 32 bits, so that nothing is promoted
// to int.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

struct Add {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wrapping<T>(x) + Wrapping<T>(y));
    else
      return x + y;
  }
};

struct Sub {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wrapping<T>(x) - Wrapping<T>(y));
    else
      return x - y;
  }
};

struct Mul {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wrapping<T>(x) * Wrapping<T>(y));
    else
      return x * y;
  }
};

// Precondition for integers: y is not 0.
struct Div {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      if (y == -1) return Sub()(T{0}, x);  // the smallest number divided by -1 overflows
    }
    return static_cast<T>(x / y);
  }
};

struct FloorDiv {
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

// Precondition for integers: y is not negative.
struct Pow {
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
  WEIR_HOST_DEVICE T operator()(T x, T y) const {
    return x > y || x != x ? x : y;
  }
};

struct Minimum {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x, T y) const {
    return x < y || x != x ? x : y;
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

// x / y without the remainder, and the remainder, which has the sign of x.
struct TruncateDiv {
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::trunc(x / y);
    else
      return Div()(x, y);
  }
};

struct TruncateMod {
  template <typename T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(x, y);
    } else {
      if constexpr (std::is_signed_v<T>) {
        if (y == -1) return 0;  // the smallest number divided by -1 overflows
      }
      return static_cast<T>(x % y);
    }
  }
};

// The conjugate of a complex number; a real number itself.
struct Conj {
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>)
      return std::conj(x);
    else
      return x;
  }
};

}  // namespace weir::elementwise
