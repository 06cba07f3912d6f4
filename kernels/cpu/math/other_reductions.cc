// Reductions of integers, complex numbers and bool: plain loops, compiled once.
#include <limits>
#include <type_traits>

#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/reduction_loops.h"

namespace weir {
namespace {

struct Sum : elementwise::Add {
  template <typename T>
  static T Identity() {
    return T(0);
  }
};
struct Prod : elementwise::Mul {
  template <typename T>
  static T Identity() {
    return T(1);
  }
};
struct Max : elementwise::Maximum {
  template <typename T>
  static T Identity() {
    return std::numeric_limits<T>::lowest();
  }
};
struct Min : elementwise::Minimum {
  template <typename T>
  static T Identity() {
    return std::numeric_limits<T>::max();
  }
};
struct All : elementwise::LogicalAnd {
  template <typename T>
  static T Identity() {
    return true;
  }
};
struct Any : elementwise::LogicalOr {
  template <typename T>
  static T Identity() {
    return false;
  }
};

template <typename Op, typename T>
void Inner(const void* in_data, int64_t rows, int64_t n, void* out_data) {
  const T* in = static_cast<const T*>(in_data);
  for (int64_t r = 0; r < rows; ++r, in += n) {
    T result = Op::template Identity<T>();
    for (int64_t i = 0; i < n; ++i) result = Op()(result, in[i]);
    static_cast<T*>(out_data)[r] = result;
  }
}

template <typename Op, typename T>
void Outer(const void* in_data, int64_t rows, int64_t n, int64_t begin, int64_t end, void* out_data) {
  const T* in = static_cast<const T*>(in_data);
  T* out = static_cast<T*>(out_data);
  for (int64_t c = begin; c < end; ++c) out[c] = Op::template Identity<T>();
  for (int64_t r = 0; r < rows; ++r, in += n) {
    for (int64_t c = begin; c < end; ++c) out[c] = Op()(out[c], in[c]);
  }
}

template <typename Op, typename T>
constexpr ReductionRow Row(const char* op) {
  return {op, DTypeOf<T>, &Inner<Op, T>, &Outer<Op, T>};
}

#define WEIR_INTEGERS(op, functor)                                                                           \
  Row<functor, int32_t>(op), Row<functor, int64_t>(op), Row<functor, int8_t>(op), Row<functor, int16_t>(op), \
      Row<functor, uint8_t>(op), Row<functor, uint16_t>(op), Row<functor, uint32_t>(op),                     \
      Row<functor, uint64_t>(op)
#define WEIR_COMPLEX(op, functor) \
  Row<functor, std::complex<float>>(op), Row<functor, std::complex<double>>(op)

constexpr ReductionRow kRows[] = {
    WEIR_INTEGERS("Sum", Sum),  WEIR_COMPLEX("Sum", Sum),  WEIR_INTEGERS("Prod", Prod),
    WEIR_COMPLEX("Prod", Prod), WEIR_INTEGERS("Max", Max), WEIR_INTEGERS("Min", Min),
    Row<All, bool>("All"),      Row<Any, bool>("Any"),
};

}  // namespace

absl::Span<const ReductionRow> OtherReductions() { return kRows; }

const ReductionRow* FindReduction(absl::string_view op, DType dtype) {
  for (absl::Span<const ReductionRow> table : {FloatReductions(), OtherReductions()}) {
    for (const ReductionRow& row : table) {
      if (row.dtype == dtype && row.op == op) return &row;
    }
  }
  return nullptr;
}

}  // namespace weir
