// Compiled once per instruction set. NaN wins over every number in Max and Min.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/math/float_reductions.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <algorithm>
#include <limits>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/math/reduction_loops.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <typename T>
  static T Identity() {
    return 0;
  }
  template <typename V>
  static HWY_INLINE V Combine(V a, V b) {
    return hn::Add(a, b);
  }
  template <typename T>
  static T CombineScalars(T a, T b) {
    return a + b;
  }
};

struct Prod {
  template <typename T>
  static T Identity() {
    return 1;
  }
  template <typename V>
  static HWY_INLINE V Combine(V a, V b) {
    return hn::Mul(a, b);
  }
  template <typename T>
  static T CombineScalars(T a, T b) {
    return a * b;
  }
};

struct Max {
  template <typename T>
  static T Identity() {
    return -std::numeric_limits<T>::infinity();
  }
  template <typename V>
  static HWY_INLINE V Combine(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
  template <typename T>
  static T CombineScalars(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

struct Min {
  template <typename T>
  static T Identity() {
    return std::numeric_limits<T>::infinity();
  }
  template <typename V>
  static HWY_INLINE V Combine(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
  template <typename T>
  static T CombineScalars(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

struct Plain {
  template <typename V>
  static HWY_INLINE V Map(V x) {
    return x;
  }
};
struct Squared {
  template <typename V>
  static HWY_INLINE V Map(V x) {
    return hn::Mul(x, x);
  }
};

constexpr int64_t kBlock = 4096;  // elements of a row whose partial results are combined before the next ones
constexpr int64_t kRowBlock = 256;

template <typename Op, typename Map, typename T>
T ReduceBlock(const T* in, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto identity = hn::Set(d, Op::template Identity<T>());
  auto acc0 = identity, acc1 = identity, acc2 = identity, acc3 = identity;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    acc0 = Op::Combine(acc0, Map::Map(hn::LoadU(d, in + i)));
    acc1 = Op::Combine(acc1, Map::Map(hn::LoadU(d, in + i + lanes)));
    acc2 = Op::Combine(acc2, Map::Map(hn::LoadU(d, in + i + 2 * lanes)));
    acc3 = Op::Combine(acc3, Map::Map(hn::LoadU(d, in + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) acc0 = Op::Combine(acc0, Map::Map(hn::LoadU(d, in + i)));
  acc0 = Op::Combine(Op::Combine(acc0, acc1), Op::Combine(acc2, acc3));
  HWY_ALIGN T parts[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(acc0, d, parts);
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) parts[j] = Op::CombineScalars(parts[j], parts[j + half]);
  }
  T result = parts[0];
  const hn::CappedTag<T, 1> one;
  for (; i < n; ++i) {
    result = Op::CombineScalars(result, hn::GetLane(Map::Map(hn::Set(one, in[i]))));
  }
  return result;
}

template <typename Op, typename Map, typename T>
void Inner(const void* in_data, int64_t rows, int64_t n, void* out_data) {
  const T* in = static_cast<const T*>(in_data);
  T* out = static_cast<T*>(out_data);
  for (int64_t r = 0; r < rows; ++r, in += n) {
    T result = ReduceBlock<Op, Map>(in, std::min(n, kBlock));
    for (int64_t i = kBlock; i < n; i += kBlock) {
      result = Op::CombineScalars(result, ReduceBlock<Op, Map>(in + i, std::min(n - i, kBlock)));
    }
    out[r] = result;
  }
}

template <typename Op, typename T>
void Outer(const void* in_data, int64_t rows, int64_t n, int64_t begin, int64_t end, void* out_data) {
  const T* in = static_cast<const T*>(in_data);
  T* out = static_cast<T*>(out_data);
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto identity = hn::Set(d, Op::template Identity<T>());
  std::fill(out + begin, out + end, Op::template Identity<T>());
  for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
    const int64_t r1 = std::min(rows, r0 + kRowBlock);
    int64_t c = begin;
    for (; c + 4 * lanes <= end; c += 4 * lanes) {
      auto acc0 = identity, acc1 = identity, acc2 = identity, acc3 = identity;
      for (int64_t r = r0; r < r1; ++r) {
        const T* row = in + r * n + c;
        acc0 = Op::Combine(acc0, hn::LoadU(d, row));
        acc1 = Op::Combine(acc1, hn::LoadU(d, row + lanes));
        acc2 = Op::Combine(acc2, hn::LoadU(d, row + 2 * lanes));
        acc3 = Op::Combine(acc3, hn::LoadU(d, row + 3 * lanes));
      }
      hn::StoreU(Op::Combine(hn::LoadU(d, out + c), acc0), d, out + c);
      hn::StoreU(Op::Combine(hn::LoadU(d, out + c + lanes), acc1), d, out + c + lanes);
      hn::StoreU(Op::Combine(hn::LoadU(d, out + c + 2 * lanes), acc2), d, out + c + 2 * lanes);
      hn::StoreU(Op::Combine(hn::LoadU(d, out + c + 3 * lanes), acc3), d, out + c + 3 * lanes);
    }
    for (; c + lanes <= end; c += lanes) {
      auto acc = identity;
      for (int64_t r = r0; r < r1; ++r) acc = Op::Combine(acc, hn::LoadU(d, in + r * n + c));
      hn::StoreU(Op::Combine(hn::LoadU(d, out + c), acc), d, out + c);
    }
    if (c == end) continue;
    T acc[HWY_MAX_BYTES / sizeof(T)];
    std::fill(acc, acc + (end - c), Op::template Identity<T>());
    for (int64_t r = r0; r < r1; ++r) {
      for (int64_t j = c; j < end; ++j) acc[j - c] = Op::CombineScalars(acc[j - c], in[r * n + j]);
    }
    for (int64_t j = c; j < end; ++j) out[j] = Op::CombineScalars(out[j], acc[j - c]);
  }
}

template <typename Op, typename T>
constexpr ReductionRow Row(const char* op) {
  return {op, DTypeOf<T>, &Inner<Op, Plain, T>, &Outer<Op, T>};
}

absl::Span<const ReductionRow> Rows() {
  static constexpr ReductionRow kRows[] = {
      Row<Sum, float>("Sum"),
      Row<Sum, double>("Sum"),
      Row<Prod, float>("Prod"),
      Row<Prod, double>("Prod"),
      Row<Max, float>("Max"),
      Row<Max, double>("Max"),
      Row<Min, float>("Min"),
      Row<Min, double>("Min"),
      {"L2Loss", DType::kFloat32, &Inner<Sum, Squared, float>, nullptr},
      {"L2Loss", DType::kFloat64, &Inner<Sum, Squared, double>, nullptr},
  };
  return kRows;
}

}  // namespace

absl::Span<const ReductionRow> FloatReductionsOfTarget() { return Rows(); }

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {
HWY_EXPORT(FloatReductionsOfTarget);
absl::Span<const ReductionRow> FloatReductions() { return HWY_DYNAMIC_DISPATCH(FloatReductionsOfTarget)(); }
}  // namespace weir
#endif
