// Compiled once per instruction set: the compiler turns the plain loops into that set's vector instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/math/binary_loops.cc"
// AVX2 and AVX-512 machines are what Weir is tuned for; one plain build serves everything older.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/loop_pragmas.h"
#include "kernels/cpu/math/binary_table.h"
#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/nn/activation_table.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace {

template <typename Op, typename T>
bool AcceptsAll(const T* y, int64_t n) {
  if constexpr (std::is_integral_v<T> && Op::kTraits.refused != elementwise::Refused::kNothing) {
    bool accepts = true;
    for (int64_t i = 0; i < n; ++i) accepts &= elementwise::Accepts<Op>(y[i]);
    return accepts;
  }
  return true;
}

template <typename Op, typename T>
bool Loop(const void* x_data, const void* y_data, void* z_data, int64_t n, Operands operands) {
  using Z = elementwise::ResultOf<Op, T, T>;
  const T* x = static_cast<const T*>(x_data);
  const T* y = static_cast<const T*>(y_data);
  Z* z = static_cast<Z*>(z_data);
  if (!AcceptsAll<Op>(y, operands == Operands::kScalarY ? 1 : n)) return false;
  const typename Op::Function f;
  switch (operands) {
    case Operands::kBoth:
      WEIR_ELEMENTWISE_LOOP
      for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Z>(f(x[i], y[i]));
      break;
    case Operands::kScalarX: {
      const T scalar = *x;
      WEIR_ELEMENTWISE_LOOP
      for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Z>(f(scalar, y[i]));
      break;
    }
    case Operands::kScalarY: {
      const T scalar = *y;
      WEIR_ELEMENTWISE_LOOP
      for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Z>(f(x[i], scalar));
      break;
    }
  }
  return true;
}

template <typename Op, typename T>
BinaryRow MakeRow(const Op& op, const T*) {
  return {op.name,
          DTypeOf<T>,
          DTypeOf<elementwise::ResultOf<Op, T, T>>,
          &Loop<Op, T>,
          elementwise::NanosecondsOf<T>(op.cost),
          Op::kTraits};
}

template <typename Table>
void AddTable(std::vector<BinaryRow>& rows, const Table& table) {
  const auto make = [](const auto& op, auto* type) { return MakeRow(op, type); };
  std::apply([&](const auto&... op) { (elementwise::AddMainRows(rows, op, make), ...); }, table);
}

}  // namespace

absl::Span<const BinaryRow> BinaryRowsOfTarget() {
  static const auto* const rows = [] {
    auto* all = new std::vector<BinaryRow>;
    AddTable(*all, elementwise::kBinaryTable);
    AddTable(*all, elementwise::kActivationGradTable);
    return all;
  }();
  return *rows;
}

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {
HWY_EXPORT(BinaryRowsOfTarget);
absl::Span<const BinaryRow> BinaryLoops() { return HWY_DYNAMIC_DISPATCH(BinaryRowsOfTarget)(); }
}  // namespace weir
#endif
