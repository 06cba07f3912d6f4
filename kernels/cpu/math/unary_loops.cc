// Compiled once per instruction set, as binary_loops.cc. Transcendental functions come from Highway's math
// library (errors of at most 4 units in the last place); operands outside the range it promises go to the C
// library.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/math/unary_loops.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/loop_pragmas.h"
#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/math/unary_table.h"
#include "kernels/cpu/nn/activation_table.h"
// clang-format off: after foreach_target.h, which includes this file once for each target
#include "hwy/contrib/math/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using elementwise::VectorForm;

template <typename Op, typename T>
bool Loop(const void* x_data, void* y_data, int64_t n) {
  using Y = elementwise::ResultOf<Op, T>;
  const T* x = static_cast<const T*>(x_data);
  Y* y = static_cast<Y*>(y_data);
  const typename Op::Function f;
  if constexpr (std::is_integral_v<T> && Op::kTraits.refused != elementwise::Refused::kNothing) {
    for (int64_t i = 0; i < n; ++i) {
      if (!elementwise::Accepts<Op>(x[i])) return false;
    }
  }
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Y>(f(x[i]));
  return true;
}

// Bounds inside which the vector function is right for every lane.
template <typename T>
inline constexpr T kExpBound = sizeof(T) == 4 ? T(87) : T(705);

// For the vector forms built on exp: it neither overflows nor underflows.
struct ExpRange {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    return hn::Le(hn::Abs(x), hn::Set(d, kExpBound<hn::TFromD<D>>));
  }
};

template <VectorForm form>
struct Vectorized;

template <>
struct Vectorized<VectorForm::kExp> : ExpRange {
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    return hn::Exp(d, x);
  }
};

template <>
struct Vectorized<VectorForm::kExpm1> : ExpRange {
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    return hn::Expm1(d, x);
  }
};

template <>
struct Vectorized<VectorForm::kElu> {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    using T = hn::TFromD<D>;
    return hn::And(hn::Ge(x, hn::Set(d, -kExpBound<T>)),
                   hn::Le(x, hn::Set(d, std::numeric_limits<T>::max())));
  }
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    const V zero = hn::Zero(d);
    return hn::IfThenElse(hn::Lt(x, zero), hn::Expm1(d, hn::Min(x, zero)), x);
  }
};

template <>
struct Vectorized<VectorForm::kSoftplus> : ExpRange {
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    const V small = hn::Exp(d, hn::Neg(hn::Abs(x)));
    return hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, small));
  }
};

template <>
struct Vectorized<VectorForm::kSigmoid> : ExpRange {
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    const V one = hn::Set(d, hn::TFromD<D>(1));
    return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(x))));
  }
};

template <>
struct Vectorized<VectorForm::kTanh> {
  template <typename D, typename V>
  static HWY_INLINE hn::Mask<D> InRange(D d, V x) {
    return hn::Le(hn::Abs(x), hn::Set(d, hn::TFromD<D>(30)));
  }
  template <typename D, typename V>
  static HWY_INLINE V Apply(D d, V x) {
    return hn::Tanh(d, x);
  }
};

template <>
struct Vectorized<VectorForm::kLog> {
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

template <>
struct Vectorized<VectorForm::kLog1p> {
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

// A vector of which some lanes are out of range: those go through `Function`. An element's result must not
// depend on its neighbours.
template <typename Vector, typename Function, typename D, typename V, typename T = hn::TFromD<D>>
HWY_NOINLINE void ApplyMixed(D d, V v, T* y) {
  HWY_ALIGN T x[HWY_MAX_BYTES / sizeof(T)];
  uint8_t in_range[8] = {};
  hn::Store(v, d, x);
  hn::StoreMaskBits(d, Vector::InRange(d, v), in_range);
  hn::StoreU(Vector::Apply(d, v), d, y);
  const Function f;
  for (size_t j = 0; j < hn::Lanes(d); ++j) {
    if ((in_range[j / 8] >> (j % 8) & 1) == 0) y[j] = f(x[j]);
  }
}

// `Function` where the vector form is not right.
template <typename Vector, typename Function, typename T>
bool VectorLoop(const void* x_data, void* y_data, int64_t n) {
  const T* x = static_cast<const T*>(x_data);
  T* y = static_cast<T*>(y_data);
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    if (HWY_LIKELY(hn::AllTrue(d, Vector::InRange(d, v)))) {
      hn::StoreU(Vector::Apply(d, v), d, y + i);
    } else {
      ApplyMixed<Vector, Function>(d, v, y + i);
    }
  }
  if (i == n) return true;
  // The rest goes through a padded vector: an element's result must not depend on its position.
  HWY_ALIGN T rest[HWY_MAX_BYTES / sizeof(T)];
  for (int64_t j = 0; j < lanes; ++j) rest[j] = i + j < n ? x[i + j] : T(1) / 2;
  const auto v = hn::Load(d, rest);
  if (HWY_LIKELY(hn::AllTrue(d, Vector::InRange(d, v)))) {
    hn::Store(Vector::Apply(d, v), d, rest);
  } else {
    ApplyMixed<Vector, Function>(d, v, rest);
  }
  for (int64_t j = i; j < n; ++j) y[j] = rest[j - i];
  return true;
}

template <typename Op, typename T>
UnaryRow MakeRow(const Op& op, const T*) {
  constexpr VectorForm kForm = Op::kTraits.vector_form;
  UnaryRow row = {op.name,
                  DTypeOf<T>,
                  DTypeOf<elementwise::ResultOf<Op, T>>,
                  nullptr,
                  elementwise::NanosecondsOf<T>(op.cost),
                  Op::kTraits};
  if constexpr (kForm == VectorForm::kNone)
    row.loop = &Loop<Op, T>;
  else
    row.loop = &VectorLoop<Vectorized<kForm>, typename Op::Function, T>;
  return row;
}

template <typename Table>
void AddTable(std::vector<UnaryRow>& rows, const Table& table) {
  const auto make = [](const auto& op, auto* type) { return MakeRow(op, type); };
  std::apply([&](const auto&... op) { (elementwise::AddMainRows(rows, op, make), ...); }, table);
}

}  // namespace

absl::Span<const UnaryRow> UnaryRowsOfTarget() {
  static const auto* const rows = [] {
    auto* all = new std::vector<UnaryRow>;
    AddTable(*all, elementwise::kUnaryTable);
    AddTable(*all, elementwise::kActivationTable);
    return all;
  }();
  return *rows;
}

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {
HWY_EXPORT(UnaryRowsOfTarget);
absl::Span<const UnaryRow> UnaryLoops() { return HWY_DYNAMIC_DISPATCH(UnaryRowsOfTarget)(); }
}  // namespace weir
#endif
