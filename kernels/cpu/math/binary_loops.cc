// Compiled once per instruction set: the compiler turns the plain loops into that set's vector instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/math/binary_loops.cc"
// AVX2 and AVX-512 machines are what Weir is tuned for; one plain build serves everything older.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/loop_pragmas.h"
#include "kernels/cpu/math/elementwise_functors.h"
#include "kernels/cpu/math/elementwise_loops.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace {

template <typename F, typename T>
bool AcceptsAll(const T* y, int64_t n) {
  if constexpr (std::is_integral_v<T> && requires { F::Accepts(T{}); }) {
    bool accepts = true;
    for (int64_t i = 0; i < n; ++i) accepts &= F::Accepts(y[i]);
    return accepts;
  }
  return true;
}

template <typename F, typename T, typename Z>
bool Loop(const void* x_data, const void* y_data, void* z_data, int64_t n, Operands operands) {
  const T* x = static_cast<const T*>(x_data);
  const T* y = static_cast<const T*>(y_data);
  Z* z = static_cast<Z*>(z_data);
  if (!AcceptsAll<F>(y, operands == Operands::kScalarY ? 1 : n)) return false;
  const F f;
  switch (operands) {
    case Operands::kBoth:
      WEIR_ELEMENTWISE_LOOP
      for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
      break;
    case Operands::kScalarX: {
      const T scalar = *x;
      WEIR_ELEMENTWISE_LOOP
      for (int64_t i = 0; i < n; ++i) z[i] = f(scalar, y[i]);
      break;
    }
    case Operands::kScalarY: {
      const T scalar = *y;
      WEIR_ELEMENTWISE_LOOP
      for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], scalar);
      break;
    }
  }
  return true;
}

template <typename F, typename T>
constexpr BinaryRow Arithmetic(const char* op, float nanoseconds) {
  return {op, DTypeOf<T>, DTypeOf<T>, &Loop<F, T, T>, nanoseconds};
}

template <typename F, typename T>
constexpr BinaryRow Comparison(const char* op) {
  return {op, DTypeOf<T>, DType::kBool, &Loop<F, T, bool>, 0.3f};
}

#define WEIR_FLOATS(op, functor, cost) \
  Arithmetic<elementwise::functor, float>(op, cost), Arithmetic<elementwise::functor, double>(op, 2 * cost)
#define WEIR_NUMBERS(op, functor, cost, integer_cost)                                          \
  WEIR_FLOATS(op, functor, cost), Arithmetic<elementwise::functor, int32_t>(op, integer_cost), \
      Arithmetic<elementwise::functor, int64_t>(op, 2 * integer_cost)
#define WEIR_COMPARISONS(op, functor)                                                        \
  Comparison<elementwise::functor, float>(op), Comparison<elementwise::functor, double>(op), \
      Comparison<elementwise::functor, int32_t>(op), Comparison<elementwise::functor, int64_t>(op)

absl::Span<const BinaryRow> Rows() {
  static constexpr BinaryRow kRows[] = {
      WEIR_NUMBERS("Add", Add, 0.4f, 0.4f),
      WEIR_NUMBERS("AddV2", Add, 0.4f, 0.4f),
      WEIR_NUMBERS("Sub", Sub, 0.4f, 0.4f),
      WEIR_NUMBERS("Mul", Mul, 0.4f, 0.4f),
      WEIR_NUMBERS("Div", Div, 0.5f, 2.0f),
      WEIR_FLOATS("RealDiv", Div, 0.5f),
      WEIR_NUMBERS("FloorDiv", FloorDiv, 0.6f, 3.0f),
      WEIR_NUMBERS("FloorMod", FloorMod, 10.0f, 3.0f),
      WEIR_FLOATS("DivNoNan", DivNoNan, 0.5f),
      WEIR_NUMBERS("Pow", Pow, 15.0f, 5.0f),
      WEIR_NUMBERS("Maximum", Maximum, 0.4f, 0.4f),
      WEIR_NUMBERS("Minimum", Minimum, 0.4f, 0.4f),
      WEIR_NUMBERS("SquaredDifference", SquaredDifference, 0.4f, 0.4f),
      WEIR_FLOATS("TanhGrad", TanhGrad, 0.4f),
      WEIR_FLOATS("SigmoidGrad", SigmoidGrad, 0.4f),
      WEIR_COMPARISONS("Equal", Equal),
      WEIR_COMPARISONS("NotEqual", NotEqual),
      WEIR_COMPARISONS("Less", Less),
      WEIR_COMPARISONS("LessEqual", LessEqual),
      WEIR_COMPARISONS("Greater", Greater),
      WEIR_COMPARISONS("GreaterEqual", GreaterEqual),
      Comparison<elementwise::LogicalAnd, bool>("LogicalAnd"),
      Comparison<elementwise::LogicalOr, bool>("LogicalOr"),
  };
  return kRows;
}

}  // namespace

absl::Span<const BinaryRow> BinaryRowsOfTarget() { return Rows(); }

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {
HWY_EXPORT(BinaryRowsOfTarget);
absl::Span<const BinaryRow> BinaryLoops() { return HWY_DYNAMIC_DISPATCH(BinaryRowsOfTarget)(); }
}  // namespace weir
#endif
