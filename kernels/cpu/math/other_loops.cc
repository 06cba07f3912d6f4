// Elementwise loops that gain nothing from an instruction set: of dtypes that models seldom compute in, and
// of functions of the C library. One plain loop each, compiled once.
#include "kernels/cpu/math/binary_table.h"
#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/math/unary_table.h"
#include "kernels/cpu/nn/activation_table.h"

namespace weir {
namespace {

using elementwise::Accepts;
using elementwise::ResultOf;

template <typename Op, typename T>
bool Loop(const void* x_data, const void* y_data, void* z_data, int64_t n, Operands operands) {
  using Z = ResultOf<Op, T, T>;
  const T* x = static_cast<const T*>(x_data);
  const T* y = static_cast<const T*>(y_data);
  Z* z = static_cast<Z*>(z_data);
  const int64_t x_step = operands == Operands::kScalarX ? 0 : 1;
  const int64_t y_step = operands == Operands::kScalarY ? 0 : 1;
  const typename Op::Function f;
  for (int64_t i = 0; i < n; ++i) {
    if (!Accepts<Op>(y[i * y_step])) return false;
    z[i] = static_cast<Z>(f(x[i * x_step], y[i * y_step]));
  }
  return true;
}

template <typename Op, typename T>
bool Loop(const void* x_data, void* y_data, int64_t n) {
  using Y = ResultOf<Op, T>;
  const T* x = static_cast<const T*>(x_data);
  Y* y = static_cast<Y*>(y_data);
  const typename Op::Function f;
  for (int64_t i = 0; i < n; ++i) {
    if (!Accepts<Op>(x[i])) return false;
    y[i] = static_cast<Y>(f(x[i]));
  }
  return true;
}

template <typename Op, typename T>
BinaryRow MakeBinary(const Op& op, const T*) {
  return {op.name,
          DTypeOf<T>,
          DTypeOf<ResultOf<Op, T, T>>,
          &Loop<Op, T>,
          elementwise::NanosecondsOf<T>(op.cost),
          Op::kTraits};
}

template <typename Op, typename T>
UnaryRow MakeUnary(const Op& op, const T*) {
  return {
      op.name,    DTypeOf<T>, DTypeOf<ResultOf<Op, T>>, &Loop<Op, T>, elementwise::NanosecondsOf<T>(op.cost),
      Op::kTraits};
}

template <typename Row, typename Table, typename Make>
void AddTable(std::vector<Row>& rows, const Table& table, const Make& make) {
  std::apply([&](const auto&... op) { (elementwise::AddOtherRows(rows, op, make), ...); }, table);
}

}  // namespace

absl::Span<const BinaryRow> OtherBinaryLoops() {
  static const auto* const rows = [] {
    auto* all = new std::vector<BinaryRow>;
    const auto make = [](const auto& op, auto* type) { return MakeBinary(op, type); };
    AddTable(*all, elementwise::kBinaryTable, make);
    AddTable(*all, elementwise::kActivationGradTable, make);
    return all;
  }();
  return *rows;
}

absl::Span<const UnaryRow> OtherUnaryLoops() {
  static const auto* const rows = [] {
    auto* all = new std::vector<UnaryRow>;
    const auto make = [](const auto& op, auto* type) { return MakeUnary(op, type); };
    AddTable(*all, elementwise::kUnaryTable, make);
    AddTable(*all, elementwise::kActivationTable, make);
    return all;
  }();
  return *rows;
}

}  // namespace weir
