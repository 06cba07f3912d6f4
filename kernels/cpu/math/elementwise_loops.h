// The inner loops of elementwise ops, made from the tables and found by op and dtype once, when a kernel is
// made.
//
// Loops exist per instruction set for the dtypes that models compute in (float, double, int32, int64, bool)
// and once for the rest. half and bfloat16 have none: kernels convert blocks to float and back.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/dtype.h"
#include "kernels/cpu/math/elementwise_op.h"

namespace weir {

// How the operands of a binary loop are read: element by element, or one of them again and again.
enum class Operands { kBoth, kScalarX, kScalarY };

// z[i] = op(x[i], y[i]) for n elements. False when the op refuses an operand (division by zero); then z is
// undefined. z may be x or y itself, but must not overlap them otherwise.
using BinaryLoop = bool (*)(const void* x, const void* y, void* z, int64_t n, Operands operands);
using UnaryLoop = bool (*)(const void* x, void* y, int64_t n);

template <typename Loop>
struct LoopRow {
  const char* op;
  DType dtype;         // of the operands
  DType output_dtype;  // the same, or kBool
  Loop loop;
  float nanoseconds;  // of one element, roughly: for ParallelFor
  elementwise::Traits traits;
};

using BinaryRow = LoopRow<BinaryLoop>;
using UnaryRow = LoopRow<UnaryLoop>;

// Tables for the instruction set of this processor, and those that serve all.
absl::Span<const BinaryRow> BinaryLoops();
absl::Span<const BinaryRow> OtherBinaryLoops();
absl::Span<const UnaryRow> UnaryLoops();
absl::Span<const UnaryRow> OtherUnaryLoops();

// Null when there is none.
const BinaryRow* FindBinaryLoop(absl::string_view op, DType dtype);
const UnaryRow* FindUnaryLoop(absl::string_view op, DType dtype);

// What the files of loops share.
namespace elementwise {

// What an op's function gives for operands of T, as an element: bool for a comparison, else T.
template <typename Op, typename... T>
using ResultOf = std::conditional_t<std::is_same_v<std::invoke_result_t<typename Op::Function, T...>, bool>,
                                    bool, std::tuple_element_t<0, std::tuple<T...>>>;

template <typename Op, typename T>
constexpr bool Accepts(const T& last) {
  if constexpr (std::is_integral_v<T> && Op::kTraits.refused == Refused::kZero) return last != 0;
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T> && Op::kTraits.refused == Refused::kNegative) {
    return last >= 0;
  }
  return true;
}

template <typename T>
constexpr float NanosecondsOf(Cost cost) {
  if constexpr (kIsComplex<T>) return 2 * sizeof(T) / 8 * cost.real;
  return (sizeof(T) == 8 ? 2 : 1) * (std::is_integral_v<T> ? cost.integer : cost.real);
}

// Rows of one op for each type it takes among T...; make(op, TypeTag<T>) gives the loop.
template <typename Row, typename Op, typename... T, typename Make>
void AddRows(std::vector<Row>& rows, const Op& op, const Make& make) {
  const auto add = [&]<typename E>(const E*) {
    if constexpr (Op::template Takes<E>()) rows.push_back(make(op, static_cast<const E*>(nullptr)));
  };
  (add(static_cast<const T*>(nullptr)), ...);
}

// Which types' loops are compiled for each instruction set.
template <typename Op, typename Row, typename Make>
void AddMainRows(std::vector<Row>& rows, const Op& op, const Make& make) {
  if constexpr (!Op::kTraits.is_library_call) {
    AddRows<Row, Op, float, double, int32_t, int64_t, bool>(rows, op, make);
  }
}
template <typename Op, typename Row, typename Make>
void AddOtherRows(std::vector<Row>& rows, const Op& op, const Make& make) {
  if constexpr (Op::kTraits.is_library_call) {
    AddRows<Row, Op, float, double, int32_t, int64_t, bool>(rows, op, make);
  }
  AddRows<Row, Op, int8_t, int16_t, uint8_t, uint16_t, uint32_t, uint64_t, std::complex<float>,
          std::complex<double>, std::string>(rows, op, make);
}

}  // namespace elementwise
}  // namespace weir
