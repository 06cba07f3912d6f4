#include "kernels/cpu/training/update_math.h"

#include <cmath>

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

template <typename T>
void Adagrad(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,
             AdagradCoefficients<T> c) {
  ForEachVector<T>(count, [=](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, grad + i);
    const auto a0 = hn::LoadU(d, accum.before + i);
    const auto a1 = c.update_slots ? hn::MulAdd(g, g, a0) : a0;
    const auto step =
        hn::Div(hn::Mul(g, hn::Set(d, c.learning_rate)), hn::Add(hn::Sqrt(a1), hn::Set(d, c.epsilon)));
    const auto x = hn::LoadU(d, var.before + i);
    hn::StoreU(a1, d, accum.after + i);
    hn::StoreU(hn::Sub(x, step), d, var.after + i);
  });
}

template <typename T>
void RMSProp(int64_t count, UpdatedArray<T> var, UpdatedArray<T> ms, UpdatedArray<T> mom, const T* grad,
             RMSPropCoefficients<T> c) {
  ForEachVector<T>(count, [=](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, grad + i);
    const auto ms0 = hn::LoadU(d, ms.before + i);
    const auto ms1 = hn::MulAdd(hn::MulSub(g, g, ms0), hn::Set(d, T{1} - c.rho), ms0);
    const auto root = hn::Sqrt(hn::Add(ms1, hn::Set(d, c.epsilon)));
    const auto step = hn::Div(hn::Mul(g, hn::Set(d, c.learning_rate)), root);
    const auto mom1 = hn::MulAdd(hn::LoadU(d, mom.before + i), hn::Set(d, c.momentum), step);
    const auto x = hn::LoadU(d, var.before + i);
    hn::StoreU(ms1, d, ms.after + i);
    hn::StoreU(mom1, d, mom.after + i);
    hn::StoreU(hn::Sub(x, mom1), d, var.after + i);
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
  }                                                                                                        \
  void Adagrad##Name(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,             \
                     AdagradCoefficients<T> c) {                                                           \
    Adagrad<T>(count, var, accum, grad, c);                                                                \
  }                                                                                                        \
  void RMSProp##Name(int64_t count, UpdatedArray<T> var, UpdatedArray<T> ms, UpdatedArray<T> mom,          \
                     const T* grad, RMSPropCoefficients<T> c) {                                            \
    RMSProp<T>(count, var, ms, mom, grad, c);                                                              \
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
  HWY_EXPORT(Adagrad##Name);                                                                            \
  HWY_EXPORT(RMSProp##Name);                                                                            \
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
  }                                                                                                     \
  template <>                                                                                           \
  void AdagradUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,       \
                        AdagradCoefficients<T> c) {                                                     \
    HWY_DYNAMIC_DISPATCH(Adagrad##Name)(count, var, accum, grad, c);                                    \
  }                                                                                                     \
  template <>                                                                                           \
  void RMSPropUpdate<T>(int64_t count, UpdatedArray<T> var, UpdatedArray<T> ms, UpdatedArray<T> mom,    \
                        const T* grad, RMSPropCoefficients<T> c) {                                      \
    HWY_DYNAMIC_DISPATCH(RMSProp##Name)(count, var, ms, mom, grad, c);                                  \
  }
WEIR_FOR_EACH_TYPE(WEIR_DISPATCH)

}  // namespace weir
#endif  // HWY_ONCE
