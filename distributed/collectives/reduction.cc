#include "distributed/collectives/reduction.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/types/float16.h"
#include "kernels/cpu/float16_rows.h"

namespace weir {
namespace {

constexpr int64_t kBlock = 1024;  // elements: what one level of the tree keeps on the stack

// What numbers of type T are added up in.
template <typename T>
struct WideType {
  using Type = T;
};
template <>
struct WideType<Half> {
  using Type = float;
};
template <>
struct WideType<Bfloat16> {
  using Type = float;
};

// Signed overflow wraps around, as in TensorFlow's sums.
template <typename T, typename F>
T Wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return f(a, b);
  }
}

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Product {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};

template <typename T>
void Load(const char* input, int64_t begin, int64_t count, typename WideType<T>::Type* block) {
  const T* source = reinterpret_cast<const T*>(input) + begin;
  if constexpr (std::is_same_v<T, typename WideType<T>::Type>) {
    std::copy_n(source, count, block);
  } else {
    ToFloats(source, block, count);
  }
}

// The elements [begin, begin + count) of all inputs, reduced.
template <typename T, typename Op>
void ReduceBlock(absl::Span<const char* const> inputs, int64_t begin, int64_t count, Op op,
                 typename WideType<T>::Type* block) {
  if (inputs.size() == 1) return Load<T>(inputs[0], begin, count, block);
  const size_t half = std::bit_floor(inputs.size() - 1);
  typename WideType<T>::Type other[kBlock];
  ReduceBlock<T>(inputs.subspan(0, half), begin, count, op, block);
  ReduceBlock<T>(inputs.subspan(half), begin, count, op, other);
  for (int64_t i = 0; i < count; ++i) block[i] = op(block[i], other[i]);
}

template <typename T>
void Store(typename WideType<T>::Type* block, int64_t divisor, int64_t count, T* output) {
  using Wide = typename WideType<T>::Type;
  if (divisor != 1) {
    const Wide by = static_cast<Wide>(divisor);
    for (int64_t i = 0; i < count; ++i) block[i] /= by;
  }
  if constexpr (std::is_same_v<T, Wide>) {
    std::copy_n(block, count, output);
  } else {
    FromFloats(block, output, count);
  }
}

// Two of them, which is the common case, need no block.
template <typename T, typename Op>
void ReduceTwo(const char* first, const char* second, int64_t divisor, int64_t count, Op op, T* output) {
  const T* a = reinterpret_cast<const T*>(first);
  const T* b = reinterpret_cast<const T*>(second);
  if (divisor == 1) {
    for (int64_t i = 0; i < count; ++i) output[i] = op(a[i], b[i]);
  } else {
    const T by = static_cast<T>(divisor);
    for (int64_t i = 0; i < count; ++i) output[i] = op(a[i], b[i]) / by;
  }
}

template <typename T, typename Op>
void ReduceAs(absl::Span<const char* const> inputs, int64_t divisor, int64_t count, Op op, char* output) {
  T* const result = reinterpret_cast<T*>(output);
  if constexpr (std::is_same_v<T, typename WideType<T>::Type>) {
    if (inputs.size() == 2) return ReduceTwo(inputs[0], inputs[1], divisor, count, op, result);
  }
  typename WideType<T>::Type block[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    ReduceBlock<T>(inputs, begin, n, op, block);
    Store(block, divisor, n, result + begin);
  }
}

template <typename T>
void Reduce(Reduction reduction, absl::Span<const char* const> inputs, int64_t divisor, int64_t count,
            char* output) {
  switch (reduction) {
    case Reduction::kSum:
      return ReduceAs<T>(inputs, divisor, count, Sum(), output);
    case Reduction::kProduct:
      return ReduceAs<T>(inputs, divisor, count, Product(), output);
    case Reduction::kMin:
      return ReduceAs<T>(inputs, divisor, count, Min(), output);
    case Reduction::kMax:
      return ReduceAs<T>(inputs, divisor, count, Max(), output);
    case Reduction::kAdasum:
      return;
  }
}

// Sums of eight lanes, so that the order of additions is the same on every machine.
template <typename T>
Dots DotsIn(const T* a, const T* b, int64_t count) {
  constexpr int kLanes = 8;
  double ab[kLanes] = {}, aa[kLanes] = {}, bb[kLanes] = {};
  const auto add = [&](int lane, int64_t i) {
    const double x = a[i], y = b[i];
    ab[lane] += x * y;
    aa[lane] += x * x;
    bb[lane] += y * y;
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (int lane = 0; i < count; ++i, ++lane) add(lane, i);
  Dots dots;
  for (int lane = 0; lane < kLanes; ++lane) {
    dots.ab += ab[lane];
    dots.aa += aa[lane];
    dots.bb += bb[lane];
  }
  return dots;
}

template <typename T>
void CombineIn(const Dots& dots, const T* b, int64_t count, T* a) {
  const T of_a = static_cast<T>(dots.aa > 0 ? 1 - dots.ab / (2 * dots.aa) : 1);
  const T of_b = static_cast<T>(dots.bb > 0 ? 1 - dots.ab / (2 * dots.bb) : 1);
  for (int64_t i = 0; i < count; ++i) a[i] = of_a * a[i] + of_b * b[i];
}

}  // namespace

Dots DotsOf(const float* a, const float* b, int64_t count) { return DotsIn(a, b, count); }
Dots DotsOf(const double* a, const double* b, int64_t count) { return DotsIn(a, b, count); }
void CombineByAdasum(const Dots& dots, const float* b, int64_t count, float* a) {
  CombineIn(dots, b, count, a);
}
void CombineByAdasum(const Dots& dots, const double* b, int64_t count, double* a) {
  CombineIn(dots, b, count, a);
}

void ToWire(DType dtype, const void* source, DType wire, int64_t count, void* target) {
  if (dtype == DType::kFloat32) return FromFloats(wire, static_cast<const float*>(source), target, count);
  const double* const numbers = static_cast<const double*>(source);
  float block[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    std::copy_n(numbers + begin, n, block);
    FromFloats(wire, block, static_cast<char*>(target) + begin * 2, n);
  }
}

void FromWire(DType wire, const void* source, DType dtype, int64_t count, void* target) {
  if (dtype == DType::kFloat32) return ToFloats(wire, source, static_cast<float*>(target), count);
  float block[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    ToFloats(wire, static_cast<const char*>(source) + begin * 2, block, n);
    std::copy_n(block, n, static_cast<double*>(target) + begin);
  }
}

absl::Status CheckReducible(DType dtype) {
  switch (dtype) {
    case DType::kBfloat16:
    case DType::kHalf:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kInt32:
    case DType::kInt64:
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("tensors of ", DTypeName(dtype),
                       " cannot be reduced: only bfloat16, half, float, double, int32 and int64 can"));
  }
}

void ReduceContributions(DType dtype, Reduction reduction, absl::Span<const char* const> inputs,
                         int64_t divisor, int64_t count, char* output) {
  switch (dtype) {
    case DType::kBfloat16:
      return Reduce<Bfloat16>(reduction, inputs, divisor, count, output);
    case DType::kHalf:
      return Reduce<Half>(reduction, inputs, divisor, count, output);
    case DType::kFloat32:
      return Reduce<float>(reduction, inputs, divisor, count, output);
    case DType::kFloat64:
      return Reduce<double>(reduction, inputs, divisor, count, output);
    case DType::kInt32:
      return Reduce<int32_t>(reduction, inputs, divisor, count, output);
    case DType::kInt64:
      return Reduce<int64_t>(reduction, inputs, divisor, count, output);
    default:
      return;
  }
}

}  // namespace weir
