// An elementwise op in one place: an entry of unary_table.h or binary_table.h, made like this:
//
//   Unary<kFloats>("Softsign", 0.6f, []<typename T>(T x) { return x / (1 + Abs()(x)); }),
//
// name, dtypes, nanoseconds of one float on one core, arithmetic. The loops (binary_loops.cc, unary_loops.cc:
// once per instruction set; other_loops.cc: once) and the kernels (elementwise.cc) are made from the tables.
//
// Half and bfloat16 are computed in float: an op with float has them too. A function that gives bool for
// numbers makes a comparison.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

namespace weir::elementwise {

// Sets of element types, as bits.
using TypeSet = uint32_t;
inline constexpr TypeSet kFloats = 1;     // float, double
inline constexpr TypeSet kMainInts = 2;   // int32, int64
inline constexpr TypeSet kSmallInts = 4;  // int8, int16
inline constexpr TypeSet kUnsigned = 8;
inline constexpr TypeSet kComplex = 16;
inline constexpr TypeSet kBool = 32;
inline constexpr TypeSet kString = 64;
inline constexpr TypeSet kInexact = kFloats | kComplex;
inline constexpr TypeSet kSignedInts = kMainInts | kSmallInts;
inline constexpr TypeSet kIntegers = kSignedInts | kUnsigned;
inline constexpr TypeSet kReals = kFloats | kIntegers;
inline constexpr TypeSet kNumbers = kReals | kComplex;

template <typename T>
struct IsComplexType : std::false_type {};
template <typename T>
struct IsComplexType<std::complex<T>> : std::true_type {};
template <typename T>
inline constexpr bool kIsComplex = IsComplexType<T>::value;

// The set that a type belongs to.
template <typename T>
constexpr TypeSet SetOf() {
  if constexpr (std::is_same_v<T, bool>) return kBool;
  if constexpr (std::is_same_v<T, std::string>) return kString;
  if constexpr (std::is_floating_point_v<T>) return kFloats;
  if constexpr (kIsComplex<T>) return kComplex;
  if constexpr (std::is_unsigned_v<T>) return kUnsigned;
  return sizeof(T) < 4 ? kSmallInts : kMainInts;
}

// Which integers an op refuses, as its last operand.
enum class Refused { kNothing, kZero, kNegative };

// Functions that have a vector form in unary_loops.cc.
enum class VectorForm { kNone, kExp, kExpm1, kLog, kLog1p, kTanh, kSigmoid, kElu, kSoftplus };

struct Cost {
  constexpr Cost(float nanoseconds)
      : real(nanoseconds), integer(nanoseconds) {}  // NOLINT: a number is a cost
  constexpr Cost(float real, float integer) : real(real), integer(integer) {}
  float real, integer;
};

// How an op is compiled and what it takes; defaults fit most.
struct Traits {
  TypeSet types = 0;
  Refused refused = Refused::kNothing;
  VectorForm vector_form = VectorForm::kNone;
  bool broadcasts = true;
  // Functions of the C library gain nothing from another instruction set.
  bool is_library_call = false;
};

template <Traits traits, typename F>
struct ElementwiseOp {
  static constexpr Traits kTraits = traits;
  using Function = F;
  template <typename T>
  static constexpr bool Takes() {
    return (traits.types & SetOf<T>()) != 0;
  }

  const char* name;
  Cost cost;
};

// A loop vectorised by the compiler, once per instruction set.
template <TypeSet types, Refused refused = Refused::kNothing, typename F>
constexpr auto Unary(const char* name, Cost cost, F) {
  return ElementwiseOp<Traits{.types = types, .refused = refused}, F>{name, cost};
}
// A function with a vector form for float and double.
template <TypeSet types, VectorForm form, typename F>
constexpr auto Transcendental(const char* name, Cost cost, F) {
  return ElementwiseOp<Traits{.types = types, .vector_form = form}, F>{name, cost};
}
// A call of the C library for each element.
template <TypeSet types, Refused refused = Refused::kNothing, typename F>
constexpr auto LibraryCall(const char* name, Cost cost, F) {
  return ElementwiseOp<Traits{.types = types, .refused = refused, .is_library_call = true}, F>{name, cost};
}
// z = f(x, y) of operands that broadcast.
template <TypeSet types, Refused refused = Refused::kNothing, typename F>
constexpr auto Binary(const char* name, Cost cost, F) {
  return ElementwiseOp<Traits{.types = types, .refused = refused}, F>{name, cost};
}
// The gradient of a function, of two operands of one shape.
template <TypeSet types, typename F>
constexpr auto FusedGrad(const char* name, Cost cost, F) {
  return ElementwiseOp<Traits{.types = types, .broadcasts = false}, F>{name, cost};
}

}  // namespace weir::elementwise
