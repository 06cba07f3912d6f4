// Compiled once per instruction set, as binary_loops.cc. Transcendental functions come from Highway's math
// library (errors of at most 4 units in the last place); operands outside the range it promises go to the C
// library.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/math/unary_loops.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/loop_pragmas.h"
#include "kernels/cpu/math/elementwise_functors.h"
#include "kernels/cpu/math/elementwise_loops.h"
// clang-format off: after foreach_target.h, which includes this file once for each target
#include "hwy/contrib/math/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <typename F, typename T, typename Y>
bool Loop(const void* x_data, void* y_data, int64_t n) {
  const T* x = static_cast<const T*>(x_data);
  Y* y = static_cast<Y*>(y_data);
  const F f;
  if constexpr (std::is_integral_v<T> && requires { F::AcceptsX(T{}); }) {
    for (int64_t i = 0; i < n; ++i) {
      if (!F::AcceptsX(x[i])) return false;
    }
  }
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  return true;
}

// Bounds inside which the vector function is right for every lane.
template <typename T>
inline constexpr T kExpBound = sizeof(T) == 4 ? T(87) : T(705);

template <typename D, typename V>
HWY_INLINE hn::Mask<D> InExpRange(D d, V x) {
  return hn::Le(hn::Abs(x), hn::Set(d, kExpBound<hn::TFromD<D>>));
}

struct VectorExp : elementwise::Exp {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    return InExpRange(d, x);
  }
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    return hn::Exp(d, x);
  }
};

struct VectorSigmoid : elementwise::Sigmoid {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    return InExpRange(d, x);
  }
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    const V one = hn::Set(d, hn::TFromD<D>(1));
    return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(x))));
  }
};

struct VectorTanh : elementwise::Tanh {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    return hn::Le(hn::Abs(x), hn::Set(d, hn::TFromD<D>(30)));
  }
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    return hn::Tanh(d, x);
  }
};

struct VectorLog : elementwise::Log {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    using T = hn::TFromD<D>;
    return hn::And(hn::Ge(x, hn::Set(d, std::numeric_limits<T>::min())),
                   hn::Le(x, hn::Set(d, std::numeric_limits<T>::max())));
  }
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    return hn::Log(d, x);
  }
};

struct VectorLog1p : elementwise::Log1p {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    using T = hn::TFromD<D>;
    return hn::And(hn::Ge(x, hn::Set(d, T(-0.999))), hn::Le(x, hn::Set(d, T(1e30))));
  }
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    return hn::Log1p(d, x);
  }
};

template <typename F, typename T>
bool VectorLoop(const void* x_data, void* y_data, int64_t n) {
  const T* x = static_cast<const T*>(x_data);
  T* y = static_cast<T*>(y_data);
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const F f;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    if (HWY_LIKELY(hn::AllTrue(d, F::InRange(d, v)))) {
      hn::StoreU(F::Apply(d, v), d, y + i);
    } else {
      for (int64_t j = i; j < i + lanes; ++j) y[j] = f(x[j]);
    }
  }
  if (i == n) return true;
  // The rest goes through a padded vector: an element's result must not depend on its position.
  HWY_ALIGN T rest[HWY_MAX_BYTES / sizeof(T)];
  for (int64_t j = 0; j < lanes; ++j) rest[j] = i + j < n ? x[i + j] : T(1) / 2;
  const auto v = hn::Load(d, rest);
  if (HWY_LIKELY(hn::AllTrue(d, F::InRange(d, v)))) {
    hn::Store(F::Apply(d, v), d, rest);
    for (int64_t j = i; j < n; ++j) y[j] = rest[j - i];
  } else {
    for (int64_t j = i; j < n; ++j) y[j] = f(x[j]);
  }
  return true;
}

template <typename F, typename T>
constexpr UnaryRow Arithmetic(const char* op, float nanoseconds) {
  return {op, DTypeOf<T>, DTypeOf<T>, &Loop<F, T, T>, nanoseconds};
}

template <typename F, typename T>
constexpr UnaryRow Transcendental(const char* op, float nanoseconds) {
  return {op, DTypeOf<T>, DTypeOf<T>, &VectorLoop<F, T>, nanoseconds};
}

template <typename F, typename T>
constexpr UnaryRow Predicate(const char* op) {
  return {op, DTypeOf<T>, DType::kBool, &Loop<F, T, bool>, 0.3f};
}

#define WEIR_FLOATS(op, functor, cost) \
  Arithmetic<elementwise::functor, float>(op, cost), Arithmetic<elementwise::functor, double>(op, 2 * cost)
#define WEIR_NUMBERS(op, functor, cost)                                                \
  WEIR_FLOATS(op, functor, cost), Arithmetic<elementwise::functor, int32_t>(op, cost), \
      Arithmetic<elementwise::functor, int64_t>(op, 2 * cost)
#define WEIR_TRANSCENDENTALS(op, functor, cost) \
  Transcendental<functor, float>(op, cost), Transcendental<functor, double>(op, 3 * cost)
#define WEIR_PREDICATES(op, functor) \
  Predicate<elementwise::functor, float>(op), Predicate<elementwise::functor, double>(op)

absl::Span<const UnaryRow> Rows() {
  static constexpr UnaryRow kRows[] = {
      WEIR_NUMBERS("Neg", Neg, 0.3f),
      WEIR_NUMBERS("Square", Square, 0.3f),
      WEIR_FLOATS("Sqrt", Sqrt, 0.6f),
      WEIR_FLOATS("Rsqrt", Rsqrt, 1.0f),
      WEIR_NUMBERS("Reciprocal", Reciprocal, 0.5f),
      WEIR_TRANSCENDENTALS("Exp", VectorExp, 1.0f),
      WEIR_TRANSCENDENTALS("Log", VectorLog, 1.5f),
      WEIR_TRANSCENDENTALS("Log1p", VectorLog1p, 2.0f),
      WEIR_NUMBERS("Abs", Abs, 0.3f),
      WEIR_NUMBERS("Sign", Sign, 0.4f),
      WEIR_FLOATS("Floor", Floor, 0.3f),
      WEIR_TRANSCENDENTALS("Tanh", VectorTanh, 2.0f),
      WEIR_TRANSCENDENTALS("Sigmoid", VectorSigmoid, 1.5f),
      Predicate<elementwise::LogicalNot, bool>("LogicalNot"),
      WEIR_PREDICATES("IsFinite", IsFinite),
      WEIR_PREDICATES("IsNan", IsNan),
  };
  return kRows;
}

}  // namespace

absl::Span<const UnaryRow> UnaryRowsOfTarget() { return Rows(); }

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {
HWY_EXPORT(UnaryRowsOfTarget);
absl::Span<const UnaryRow> UnaryLoops() { return HWY_DYNAMIC_DISPATCH(UnaryRowsOfTarget)(); }
}  // namespace weir
#endif
