// Elementwise loops of the dtypes that models seldom compute in: one plain loop each, compiled once.
#include <string>

#include "kernels/cpu/math/elementwise_functors.h"
#include "kernels/cpu/math/elementwise_loops.h"

namespace weir {
namespace {

template <typename F, typename T, typename Z>
bool Loop(const void* x_data, const void* y_data, void* z_data, int64_t n, Operands operands) {
  const T* x = static_cast<const T*>(x_data);
  const T* y = static_cast<const T*>(y_data);
  Z* z = static_cast<Z*>(z_data);
  const int64_t x_step = operands == Operands::kScalarX ? 0 : 1;
  const int64_t y_step = operands == Operands::kScalarY ? 0 : 1;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (requires { F::Accepts(T{}); }) {
      if (!F::Accepts(y[i * y_step])) return false;
    }
    z[i] = F()(x[i * x_step], y[i * y_step]);
  }
  return true;
}

template <typename F, typename T, typename Y>
bool Loop(const void* x_data, void* y_data, int64_t n) {
  const T* x = static_cast<const T*>(x_data);
  Y* y = static_cast<Y*>(y_data);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (requires { F::AcceptsX(T{}); }) {
      if (!F::AcceptsX(x[i])) return false;
    }
    y[i] = F()(x[i]);
  }
  return true;
}

template <typename F, typename T, typename Z>
constexpr BinaryRow Binary(const char* op) {
  return {op, DTypeOf<T>, DTypeOf<Z>, &Loop<F, T, Z>, 1.0f};
}

template <typename F, typename T>
constexpr UnaryRow Unary(const char* op) {
  return {op, DTypeOf<T>, DTypeOf<T>, &Loop<F, T, T>, 1.0f};
}

using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;

#define WEIR_SIGNED(make, op, functor) \
  make<elementwise::functor, int8_t>(op), make<elementwise::functor, int16_t>(op)
#define WEIR_UNSIGNED(make, op, functor)                                             \
  make<elementwise::functor, uint8_t>(op), make<elementwise::functor, uint16_t>(op), \
      make<elementwise::functor, uint32_t>(op), make<elementwise::functor, uint64_t>(op)
#define WEIR_COMPLEX(make, op, functor) \
  make<elementwise::functor, Complex64>(op), make<elementwise::functor, Complex128>(op)
#define WEIR_RARE_NUMBERS(make, op, functor) \
  WEIR_SIGNED(make, op, functor), WEIR_UNSIGNED(make, op, functor), WEIR_COMPLEX(make, op, functor)
#define WEIR_RARE_INTEGERS(make, op, functor) WEIR_SIGNED(make, op, functor), WEIR_UNSIGNED(make, op, functor)

template <typename F, typename T>
constexpr BinaryRow Arithmetic(const char* op) {
  return Binary<F, T, T>(op);
}
template <typename F, typename T>
constexpr BinaryRow Comparison(const char* op) {
  return Binary<F, T, bool>(op);
}

constexpr BinaryRow kBinaryRows[] = {
    WEIR_RARE_NUMBERS(Arithmetic, "Add", Add),
    WEIR_RARE_NUMBERS(Arithmetic, "AddV2", Add),
    WEIR_RARE_NUMBERS(Arithmetic, "Sub", Sub),
    WEIR_RARE_NUMBERS(Arithmetic, "Mul", Mul),
    WEIR_RARE_NUMBERS(Arithmetic, "Div", Div),
    WEIR_COMPLEX(Arithmetic, "RealDiv", Div),
    WEIR_RARE_INTEGERS(Arithmetic, "FloorDiv", FloorDiv),
    WEIR_RARE_INTEGERS(Arithmetic, "FloorMod", FloorMod),
    WEIR_COMPLEX(Arithmetic, "DivNoNan", DivNoNan),
    WEIR_SIGNED(Arithmetic, "Pow", Pow),
    WEIR_COMPLEX(Arithmetic, "Pow", Pow),
    WEIR_RARE_INTEGERS(Arithmetic, "Maximum", Maximum),
    WEIR_RARE_INTEGERS(Arithmetic, "Minimum", Minimum),
    WEIR_COMPLEX(Arithmetic, "SquaredDifference", SquaredDifference),
    WEIR_COMPLEX(Arithmetic, "TanhGrad", TanhGrad),
    WEIR_COMPLEX(Arithmetic, "SigmoidGrad", SigmoidGrad),
    WEIR_RARE_NUMBERS(Comparison, "Equal", Equal),
    WEIR_RARE_NUMBERS(Comparison, "NotEqual", NotEqual),
    Comparison<elementwise::Equal, bool>("Equal"),
    Comparison<elementwise::NotEqual, bool>("NotEqual"),
    Comparison<elementwise::Equal, std::string>("Equal"),
    Comparison<elementwise::NotEqual, std::string>("NotEqual"),
    WEIR_RARE_INTEGERS(Comparison, "Less", Less),
    WEIR_RARE_INTEGERS(Comparison, "LessEqual", LessEqual),
    WEIR_RARE_INTEGERS(Comparison, "Greater", Greater),
    WEIR_RARE_INTEGERS(Comparison, "GreaterEqual", GreaterEqual),
    Arithmetic<elementwise::Add, std::string>("Add"),
};

constexpr UnaryRow kUnaryRows[] = {
    WEIR_SIGNED(Unary, "Neg", Neg),
    WEIR_COMPLEX(Unary, "Neg", Neg),
    WEIR_RARE_NUMBERS(Unary, "Square", Square),
    WEIR_COMPLEX(Unary, "Sqrt", Sqrt),
    WEIR_COMPLEX(Unary, "Rsqrt", Rsqrt),
    WEIR_SIGNED(Unary, "Reciprocal", Reciprocal),
    WEIR_COMPLEX(Unary, "Reciprocal", Reciprocal),
    WEIR_COMPLEX(Unary, "Exp", Exp),
    WEIR_COMPLEX(Unary, "Log", Log),
    WEIR_COMPLEX(Unary, "Log1p", Log1p),
    WEIR_SIGNED(Unary, "Abs", Abs),
    WEIR_SIGNED(Unary, "Sign", Sign),
    WEIR_COMPLEX(Unary, "Sign", Sign),
    WEIR_COMPLEX(Unary, "Tanh", Tanh),
    WEIR_COMPLEX(Unary, "Sigmoid", Sigmoid),
};

}  // namespace

absl::Span<const BinaryRow> RareBinaryLoops() { return kBinaryRows; }
absl::Span<const UnaryRow> RareUnaryLoops() { return kUnaryRows; }

}  // namespace weir
