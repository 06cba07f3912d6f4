#include "kernels/cpu/training/update_math.h"

#include <cmath>

#include "graph/types/float16.h"

// The middle x86 targets gain nothing here over SSE2 and AVX2 and would double the compile time.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/training/update_math.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Runs body(tag, i) over whole vectors, then element by element over the rest: one formula serves both.
template <typename T, typename Body>
HWY_INLINE void ForEachVector(int64_t count, const Body& body) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  const hn::CappedTag<T, 1> one;
  for (; i < count; ++i) body(one, i);
}

template <typename T>
void GradientDescent(int64_t count, UpdatedArray<T> var, T alpha, const T* delta) {
  ForEachVector<T>(count, [=](auto d, int64_t i) HWY_ATTR {
    const auto step = hn::LoadU(d, delta + i);
    hn::StoreU(hn::NegMulAdd(hn::Set(d, alpha), step, hn::LoadU(d, var.before + i)), d, var.after + i);
  });
}

template <typename T>
void Momentum(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,
              MomentumCoefficients<T> c) {
  ForEachVector<T>(count, [=](auto d, int64_t i) HWY_ATTR {
    const auto lr = hn::Set(d, c.learning_rate);
    const auto momentum = hn::Set(d, c.momentum);
    const auto g = hn::LoadU(d, grad + i);
    const auto a = hn::MulAdd(hn::LoadU(d, accum.before + i), momentum, g);
    const auto direction = c.use_nesterov ? hn::MulAdd(a, momentum, g) : a;
    const auto x = hn::LoadU(d, var.before + i);
    hn::StoreU(a, d, accum.after + i);
    hn::StoreU(hn::NegMulAdd(lr, direction, x), d, var.after + i);
  });
}

template <typename T>
void KerasMomentum(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,
                   MomentumCoefficients<T> c) {
  ForEachVector<T>(count, [=](auto d, int64_t i) HWY_ATTR {
    const auto momentum = hn::Set(d, c.momentum);
    const auto step = hn::Mul(hn::Set(d, c.learning_rate), hn::LoadU(d, grad + i));
    const auto a = hn::MulSub(hn::LoadU(d, accum.before + i), momentum, step);
    const auto change = c.use_nesterov ? hn::MulSub(a, momentum, step) : a;
    const auto x = hn::LoadU(d, var.before + i);
    hn::StoreU(a, d, accum.after + i);
    hn::StoreU(hn::Add(x, change), d, var.after + i);
  });
}

template <typename T>
void Adam(int64_t count, UpdatedArray<T> var, UpdatedArray<T> m, UpdatedArray<T> v, const T* grad,
          AdamCoefficients<T> c) {
  ForEachVector<T>(count, [=](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, grad + i);
    const auto m0 = hn::LoadU(d, m.before + i);
    const auto v0 = hn::LoadU(d, v.before + i);
    const auto beta1 = hn::Set(d, c.beta1);
    const auto one_minus_beta1 = hn::Set(d, T{1} - c.beta1);
    const auto m1 = hn::MulAdd(hn::Sub(g, m0), one_minus_beta1, m0);
    const auto v1 = hn::MulAdd(hn::MulSub(g, g, v0), hn::Set(d, T{1} - c.beta2), v0);
    const auto direction = c.use_nesterov ? hn::MulAdd(g, one_minus_beta1, hn::Mul(beta1, m1)) : m1;
    const auto scale = hn::Add(hn::Sqrt(v1), hn::Set(d, c.epsilon));
    const auto step = hn::Div(hn::Mul(direction, hn::Set(d, c.step_size)), scale);
    const auto x = hn::LoadU(d, var.before + i);
    hn::StoreU(m1, d, m.after + i);
    hn::StoreU(v1, d, v.after + i);
    hn::StoreU(hn::Sub(x, step), d, var.after + i);
  });
}

#define WEIR_FOR_EACH_TYPE(OP) OP(float, Float) OP(double, Double)
#define WEIR_TARGET_FUNCTIONS(T, Name)                                                                     \
  void GradientDescent##Name(int64_t count, UpdatedArray<T> var, T alpha, const T* delta) {                \
    GradientDescent<T>(count, var, alpha, delta);                                                          \
  }                                                                                                        \
  void Momentum##Name(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,            \
                      MomentumCoefficients<T> c) {                                                         \
    Momentum<T>(count, var, accum, grad, c);                                                               \
  }                                                                                                        \
  void KerasMomentum##Name(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,       \
                           MomentumCoefficients<T> c) {                                                    \
    KerasMomentum<T>(count, var, accum, grad, c);                                                          \
  }                                                                                                        \
  void Adam##Name(int64_t count, UpdatedArray<T> var, UpdatedArray<T> m, UpdatedArray<T> v, const T* grad, \
                  AdamCoefficients<T> c) {                                                                 \
    Adam<T>(count, var, m, v, grad, c);                                                                    \
  }
WEIR_FOR_EACH_TYPE(WEIR_TARGET_FUNCTIONS)

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {

#define WEIR_DISPATCH(T, Name)                                                                          \
  HWY_EXPORT(GradientDescent##Name);                                                                    \
  HWY_EXPORT(Momentum##Name);                                                                           \
  HWY_EXPORT(KerasMomentum##Name);                                                                      \
  HWY_EXPORT(Adam##Name);                                                                               \
  template <>                                                                                           \
  void GradientDescentUpdate<T>(int64_t count, UpdatedArray<T> var, T alpha, const T* delta) {          \
    HWY_DYNAMIC_DISPATCH(GradientDescent##Name)(count, var, alpha, delta);                              \
  }                                                                                                     \
  template <>                                                                                           \
  void MomentumUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,      \
                         MomentumCoefficients<T> c) {                                                   \
    HWY_DYNAMIC_DISPATCH(Momentum##Name)(count, var, accum, grad, c);                                   \
  }                                                                                                     \
  template <>                                                                                           \
  void KerasMomentumUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad, \
                              MomentumCoefficients<T> c) {                                              \
    HWY_DYNAMIC_DISPATCH(KerasMomentum##Name)(count, var, accum, grad, c);                              \
  }                                                                                                     \
  template <>                                                                                           \
  void AdamUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> m, UpdatedArray<T> v,          \
                     const T* grad, AdamCoefficients<T> c) {                                            \
    HWY_DYNAMIC_DISPATCH(Adam##Name)(count, var, m, v, grad, c);                                        \
  }
WEIR_FOR_EACH_TYPE(WEIR_DISPATCH)

namespace {

// 16-bit types: single precision in between, a block at a time, so that the formulas stand once.
constexpr int kBlock = 256;

template <typename T>
struct WidenedArray {
  explicit WidenedArray(UpdatedArray<T> array) : source(array) {}
  UpdatedArray<float> Load(int64_t begin, int count) {
    for (int i = 0; i < count; ++i) block[i] = static_cast<float>(source.before[begin + i]);
    return {block, block};
  }
  void Store(int64_t begin, int count) {
    for (int i = 0; i < count; ++i) source.after[begin + i] = T(block[i]);
  }
  UpdatedArray<T> source;
  float block[kBlock];
};

template <typename T>
const float* Widen(const T* values, int count, float* block) {
  for (int i = 0; i < count; ++i) block[i] = static_cast<float>(values[i]);
  return block;
}

template <typename Body>
void ForEachBlock(int64_t count, const Body& body) {
  for (int64_t i = 0; i < count; i += kBlock)
    body(i, static_cast<int>(count - i < kBlock ? count - i : kBlock));
}

template <typename T>
MomentumCoefficients<float> Widen(MomentumCoefficients<T> c) {
  return {static_cast<float>(c.learning_rate), static_cast<float>(c.momentum), c.use_nesterov};
}

}  // namespace

#define WEIR_WIDENED(T)                                                                                     \
  template <>                                                                                               \
  void GradientDescentUpdate<T>(int64_t count, UpdatedArray<T> var, T alpha, const T* delta) {              \
    WidenedArray<T> x(var);                                                                                 \
    float block[kBlock];                                                                                    \
    ForEachBlock(count, [&](int64_t i, int n) {                                                             \
      GradientDescentUpdate<float>(n, x.Load(i, n), static_cast<float>(alpha), Widen(delta + i, n, block)); \
      x.Store(i, n);                                                                                        \
    });                                                                                                     \
  }                                                                                                         \
  template <>                                                                                               \
  void MomentumUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,          \
                         MomentumCoefficients<T> c) {                                                       \
    WidenedArray<T> x(var), a(accum);                                                                       \
    float block[kBlock];                                                                                    \
    ForEachBlock(count, [&](int64_t i, int n) {                                                             \
      MomentumUpdate<float>(n, x.Load(i, n), a.Load(i, n), Widen(grad + i, n, block), Widen(c));            \
      x.Store(i, n);                                                                                        \
      a.Store(i, n);                                                                                        \
    });                                                                                                     \
  }                                                                                                         \
  template <>                                                                                               \
  void KerasMomentumUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,     \
                              MomentumCoefficients<T> c) {                                                  \
    WidenedArray<T> x(var), a(accum);                                                                       \
    float block[kBlock];                                                                                    \
    ForEachBlock(count, [&](int64_t i, int n) {                                                             \
      KerasMomentumUpdate<float>(n, x.Load(i, n), a.Load(i, n), Widen(grad + i, n, block), Widen(c));       \
      x.Store(i, n);                                                                                        \
      a.Store(i, n);                                                                                        \
    });                                                                                                     \
  }                                                                                                         \
  template <>                                                                                               \
  void AdamUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> m, UpdatedArray<T> v,              \
                     const T* grad, AdamCoefficients<T> c) {                                                \
    WidenedArray<T> x(var), first(m), second(v);                                                            \
    float block[kBlock];                                                                                    \
    const AdamCoefficients<float> wide = {static_cast<float>(c.step_size), static_cast<float>(c.beta1),     \
                                          static_cast<float>(c.beta2), static_cast<float>(c.epsilon),       \
                                          c.use_nesterov};                                                  \
    ForEachBlock(count, [&](int64_t i, int n) {                                                             \
      AdamUpdate<float>(n, x.Load(i, n), first.Load(i, n), second.Load(i, n), Widen(grad + i, n, block),    \
                        wide);                                                                              \
      x.Store(i, n);                                                                                        \
      first.Store(i, n);                                                                                    \
      second.Store(i, n);                                                                                   \
    });                                                                                                     \
  }
WEIR_WIDENED(Half)
WEIR_WIDENED(Bfloat16)

}  // namespace weir
#endif  // HWY_ONCE
