// What one thread of an elementwise kernel does, compiled for GPUs and for the host, where tests run it.
//
// A thread takes every `count`th element from `index` on. Half and bfloat16 are computed in float.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "graph/types/float16.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/functions.h"
#include "kernels/cpu/random/random_groups.h"
#include "kernels/host_device.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace weir::cuda {

struct ThreadPosition {
  int64_t index;
  int64_t count;  // of all threads
};

// The number that an element stands for, and back. On a GPU these are instructions; NaN may have other bits
// there.
template <typename T>
WEIR_HOST_DEVICE auto Load(const T& element) {
  if constexpr (std::is_same_v<T, Half>) {
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(std::bit_cast<uint16_t>(element)));
#else
    return static_cast<float>(element);
#endif
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return std::bit_cast<float>(uint32_t{std::bit_cast<uint16_t>(element)} << 16);
  } else {
    return element;
  }
}

template <typename T, typename Number>
WEIR_HOST_DEVICE void Store(T& element, Number number) {
  if constexpr (std::is_same_v<T, Half>) {
#ifdef __CUDA_ARCH__
    element = std::bit_cast<Half>(__half_as_ushort(__float2half_rn(static_cast<float>(number))));
#else
    element = Half(static_cast<float>(number));
#endif
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
#ifdef __CUDA_ARCH__
    element = std::bit_cast<Bfloat16>(__bfloat16_as_ushort(__float2bfloat16_rn(static_cast<float>(number))));
#else
    element = Bfloat16(static_cast<float>(number));
#endif
  } else {
    element = static_cast<T>(number);
  }
}

template <typename F, typename T>
WEIR_HOST_DEVICE void UnaryBody(ThreadPosition thread, const T* x, T* y, int64_t n) {
  for (int64_t i = thread.index; i < n; i += thread.count) Store(y[i], F()(Load(x[i])));
}

// A step is 1, or 0 for an operand that is one element.
template <typename F, typename T>
WEIR_HOST_DEVICE void BinaryBody(ThreadPosition thread, const T* x, int64_t x_step, const T* y,
                                 int64_t y_step, T* z, int64_t n) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    Store(z[i], F()(Load(x[i * x_step]), Load(y[i * y_step])));
  }
}

// What the CPU's Cast makes of a number.
template <typename To, typename Number>
WEIR_HOST_DEVICE void Convert(To& to, Number number) {
  if constexpr (std::is_same_v<To, bool>) {
    to = number != Number(0);
  } else if constexpr (std::is_floating_point_v<Number> && std::is_integral_v<To>) {
    // The bounds are powers of two: exact in every floating type.
    constexpr Number kLow = static_cast<Number>(std::numeric_limits<To>::min());
    constexpr Number kHigh = static_cast<Number>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    const bool fits = number < kHigh && (number >= kLow || number > Number(-1));
    to = fits ? static_cast<To>(number) : std::numeric_limits<To>::min();
  } else {
    Store(to, number);
  }
}

template <typename From, typename To>
WEIR_HOST_DEVICE void CastBody(ThreadPosition thread, const From* x, To* y, int64_t n) {
  for (int64_t i = thread.index; i < n; i += thread.count) Convert(y[i], Load(x[i]));
}

// `inner` elements in a row have one channel.
template <typename T>
WEIR_HOST_DEVICE void BiasBody(ThreadPosition thread, const T* x, const T* bias, T* y, int64_t n,
                               int64_t channels, int64_t inner) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    Store(y[i], elementwise::Add()(Load(x[i]), Load(bias[i / inner % channels])));
  }
}

// Functions that the CPU's tables have beside those of functions.h.
struct Negative {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return elementwise::Sub()(T{0}, x);
    else
      return -x;
  }
};
struct Absolute {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Negative()(x) : x;
    else
      return std::fabs(x);
  }
};
struct Square {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return elementwise::Mul()(x, x);
  }
};
struct Rsqrt {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return T(1) / std::sqrt(x);
  }
};
struct Log1p {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T x) const {
    return std::log1p(x);
  }
};

inline constexpr int kMostSpreadDims = 32;

// Loops, outermost first, over the elements of a row-major array, and how far each one goes in another.
struct SpreadDims {
  int32_t rank;
  int64_t sizes[kMostSpreadDims];
  int64_t strides[kMostSpreadDims];  // in elements; 0: the same again
};

// y is dense; each of its elements is one of x, as `dims` say.
template <typename T>
WEIR_HOST_DEVICE void SpreadBody(ThreadPosition thread, const T* x, T* y, int64_t n, const SpreadDims& dims) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    int64_t rest = i, from = 0;
    for (int d = dims.rank - 1; d >= 0; --d) {
      from += rest % dims.sizes[d] * dims.strides[d];
      rest /= dims.sizes[d];
    }
    y[i] = x[from];
  }
}

// Outputs of a stream, a group a turn (random_groups.h).
template <typename Distribution, typename T>
WEIR_HOST_DEVICE void RandomBody(ThreadPosition thread, Philox start, uint64_t blocks_per_group,
                                 Distribution distribution, T* output, int64_t n) {
  for (int64_t group = thread.index; group * kGroup<T> < n; group += thread.count) {
    Philox bits = start;
    bits.Skip(static_cast<uint64_t>(group) * blocks_per_group);
    T numbers[kGroup<T>];
    distribution(bits, numbers);
    for (int64_t i = 0; i < kGroup<T> && group * kGroup<T> + i < n; ++i) {
      output[group * kGroup<T> + i] = numbers[i];
    }
  }
}

// Calls visitor.template operator()<F, T>(name) for every kernel of one operand, and of two.
template <typename Visitor>
void VisitUnary(const Visitor& visitor) {
  const auto floats = [&]<typename F>(const char* name, F) {
    visitor.template operator()<F, float>(name);
    visitor.template operator()<F, double>(name);
    visitor.template operator()<F, Half>(name);
    visitor.template operator()<F, Bfloat16>(name);
  };
  floats("Relu", elementwise::Relu());
  floats("Sigmoid", elementwise::Sigmoid());
  floats("Tanh", elementwise::Tanh());
  floats("Exp", elementwise::Exp());
  floats("Log", elementwise::Log());
  floats("Log1p", Log1p());
  floats("Sqrt", elementwise::Sqrt());
  floats("Rsqrt", Rsqrt());
  const auto numbers = [&]<typename F>(const char* name, F f) {
    floats(name, f);
    visitor.template operator()<F, int32_t>(name);
    visitor.template operator()<F, int64_t>(name);
  };
  numbers("Neg", Negative());
  numbers("Abs", Absolute());
  numbers("Square", Square());
}

template <typename Visitor>
void VisitBinary(const Visitor& visitor) {
  const auto floats = [&]<typename F>(const char* name, F) {
    visitor.template operator()<F, float>(name);
    visitor.template operator()<F, double>(name);
    visitor.template operator()<F, Half>(name);
    visitor.template operator()<F, Bfloat16>(name);
  };
  const auto numbers = [&]<typename F>(const char* name, F f) {
    floats(name, f);
    visitor.template operator()<F, int32_t>(name);
    visitor.template operator()<F, int64_t>(name);
  };
  numbers("AddV2", elementwise::Add());
  numbers("Sub", elementwise::Sub());
  numbers("Mul", elementwise::Mul());
  numbers("Maximum", elementwise::Maximum());
  numbers("Minimum", elementwise::Minimum());
  floats("RealDiv", elementwise::Div());
  floats("ReluGrad", elementwise::ReluGrad());
  floats("SigmoidGrad", elementwise::SigmoidGrad());
  floats("TanhGrad", elementwise::TanhGrad());
}

// visitor.template operator()<From, To>()
template <typename Visitor>
void VisitCasts(const Visitor& visitor) {
  const auto each = [](const auto& visit) {
    visit(float());
    visit(double());
    visit(Half());
    visit(Bfloat16());
    visit(int32_t());
    visit(int64_t());
    visit(uint8_t());
    visit(bool());
  };
  each([&]<typename From>(From) { each([&]<typename To>(To) { visitor.template operator()<From, To>(); }); });
}

// visitor.template operator()<T>()
template <typename Visitor>
void VisitFloats(const Visitor& visitor) {
  visitor.template operator()<float>();
  visitor.template operator()<double>();
  visitor.template operator()<Half>();
  visitor.template operator()<Bfloat16>();
}

// One type for each size of elements: visitor.template operator()<T>()
template <typename Visitor>
void VisitSizes(const Visitor& visitor) {
  visitor.template operator()<uint8_t>();
  visitor.template operator()<uint16_t>();
  visitor.template operator()<uint32_t>();
  visitor.template operator()<uint64_t>();
}

// visitor.template operator()<Distribution, T>(name)
template <typename Visitor>
void VisitDistributions(const Visitor& visitor) {
  visitor.template operator()<Uniform<float>, float>("RandomUniform");
  visitor.template operator()<Uniform<double>, double>("RandomUniform");
  visitor.template operator()<Normal<float>, float>("RandomStandardNormal");
  visitor.template operator()<Normal<double>, double>("RandomStandardNormal");
  visitor.template operator()<TruncatedNormal<float>, float>("TruncatedNormal");
  visitor.template operator()<TruncatedNormal<double>, double>("TruncatedNormal");
  visitor.template operator()<UniformInt<int32_t>, int32_t>("RandomUniformInt");
  visitor.template operator()<UniformInt<int64_t>, int64_t>("RandomUniformInt");
}

}  // namespace weir::cuda
