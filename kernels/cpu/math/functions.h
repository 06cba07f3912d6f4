// Functions of elements that the CPU and GPUs compute by one text: what the tables of elementwise ops and the
// kernels in kernels/cuda are made of.
//
// T is a floating type, or std::complex on the CPU; of Relu and its gradient any number. Gradients take the
// activation's feature x or its result y, and the gradient dy that flows into it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/host_device.h"

namespace weir::elementwise {

struct Sqrt {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return std::sqrt(x);
  }
};

struct Exp {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return std::exp(x);
  }
};

struct Log {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return std::log(x);
  }
};

struct Tanh {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return std::tanh(x);
  }
};

struct TanhGrad {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

struct Sigmoid {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return T(1) / (T(1) + std::exp(-x));
  }
};

struct SigmoidGrad {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T y, T dy) const {
    return dy * y * (T(1) - y);
  }
};

// NaN stays NaN.
struct Relu {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};

// dy times 1 or 0: a gradient that is NaN or infinite shows also where the unit is off, as in TensorFlow. Of
// a product with a choice GCC makes a branch, since a product may trap, and no vectors: hence the bits.
template <typename T>
WEIR_HOST_DEVICE T TimesOneIf(bool is_on, T dy) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    using Bits = std::conditional_t<sizeof(T) == sizeof(int32_t), int32_t, int64_t>;
    return dy * std::bit_cast<T>(-Bits{is_on} & std::bit_cast<Bits>(T(1)));
  }
#endif
  if constexpr (std::is_integral_v<T>) return is_on ? dy : T(0);
  return dy * (is_on ? T(1) : T(0));
}

struct ReluGrad {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T dy, T x) const {
    return TimesOneIf(x > T(0), dy);
  }
};

}  // namespace weir::elementwise
