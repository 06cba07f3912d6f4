#include "kernels/cpu/nn/nn_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

// The middle x86 targets gain nothing here over SSE2 and AVX2 and would double the compile time.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nn/nn_math.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// clang-format off: after foreach_target.h, which includes this file once for each target
#include "hwy/contrib/math/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Lanes = hn::ScalableTag<T>;
template <typename T>
using Vector = hn::Vec<Lanes<T>>;

// One vector of a row: whole, or (at the row's end) filled up with `fill`.
template <typename T>
HWY_INLINE Vector<T> LoadPart(const T* from, int64_t count, T fill) {
  const Lanes<T> d;
  if (count >= static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, from);
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(hn::Set(d, fill), d, lanes);
  std::copy_n(from, count, lanes);
  return hn::Load(d, lanes);
}

template <typename T>
HWY_INLINE void StorePart(Vector<T> v, int64_t count, T* to) {
  const Lanes<T> d;
  if (count >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, to);
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  std::copy_n(lanes, count, to);
}

// Calls body(i, count) for the vectors that begin at i; only the last may have less than a whole vector left.
template <typename T, typename Body>
HWY_INLINE void ForEachPart(int64_t count, const Body& body) {
  const int64_t lanes = hn::Lanes(Lanes<T>());
  for (int64_t i = 0; i < count; i += lanes) body(i, count - i);
}

template <typename T>
void AddToRowsOf(int64_t rows, int64_t columns, const T* x, const T* bias, T* y) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    ForEachPart<T>(columns, [&](int64_t i, int64_t left) HWY_ATTR {
      StorePart<T>(hn::Add(LoadPart<T>(x + i, left, 0), LoadPart<T>(bias + i, left, 0)), left, y + i);
    });
  }
}

template <typename T>
void AddColumnSumsOf(int64_t rows, int64_t columns, const T* x, int64_t stride, T* sums) {
  const Lanes<T> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) {  // four independent sums hide the latency of an addition
    auto s0 = hn::LoadU(d, sums + c), s1 = hn::LoadU(d, sums + c + lanes);
    auto s2 = hn::LoadU(d, sums + c + 2 * lanes), s3 = hn::LoadU(d, sums + c + 3 * lanes);
    const T* row = x + c;
    for (int64_t r = 0; r < rows; ++r, row += stride) {
      s0 = hn::Add(s0, hn::LoadU(d, row));
      s1 = hn::Add(s1, hn::LoadU(d, row + lanes));
      s2 = hn::Add(s2, hn::LoadU(d, row + 2 * lanes));
      s3 = hn::Add(s3, hn::LoadU(d, row + 3 * lanes));
    }
    hn::StoreU(s0, d, sums + c);
    hn::StoreU(s1, d, sums + c + lanes);
    hn::StoreU(s2, d, sums + c + 2 * lanes);
    hn::StoreU(s3, d, sums + c + 3 * lanes);
  }
  for (; c + lanes <= columns; c += lanes) {
    auto sum = hn::LoadU(d, sums + c);
    for (int64_t r = 0; r < rows; ++r) sum = hn::Add(sum, hn::LoadU(d, x + r * stride + c));
    hn::StoreU(sum, d, sums + c);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = c; i < columns; ++i) sums[i] += x[r * stride + i];
  }
}

// Highway's Exp gives 0 for NaN; a diverging model must not look healthy.
template <typename T>
HWY_INLINE Vector<T> ExpOf(Vector<T> v) {
  return hn::IfThenElse(hn::IsNaN(v), v, hn::Exp(Lanes<T>(), v));
}

template <typename T>
HWY_INLINE T RowMaximum(int64_t columns, const T* x) {
  const Lanes<T> d;
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  auto maximum = hn::Set(d, kLowest);
  ForEachPart<T>(columns, [&](int64_t i, int64_t left)
                              HWY_ATTR { maximum = hn::Max(maximum, LoadPart<T>(x + i, left, kLowest)); });
  return hn::GetLane(hn::MaxOfLanes(d, maximum));
}

// y = exp(x - maximum); returns the sum.
template <typename T>
HWY_INLINE T RowExponentials(int64_t columns, const T* x, T maximum, T* y) {
  const Lanes<T> d;
  const auto shift = hn::Set(d, maximum);
  auto sum = hn::Zero(d);
  ForEachPart<T>(columns, [&](int64_t i, int64_t left) HWY_ATTR {
    const auto e = ExpOf<T>(hn::Sub(LoadPart<T>(x + i, left, -std::numeric_limits<T>::infinity()), shift));
    sum = hn::Add(sum, e);
    StorePart<T>(e, left, y + i);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <typename T>
HWY_INLINE T RowSumOfExponentials(int64_t columns, const T* x, T maximum) {
  const Lanes<T> d;
  auto sum = hn::Zero(d);
  ForEachPart<T>(columns, [&](int64_t i, int64_t left) HWY_ATTR {
    const auto v = LoadPart<T>(x + i, left, -std::numeric_limits<T>::infinity());
    sum = hn::Add(sum, ExpOf<T>(hn::Sub(v, hn::Set(d, maximum))));
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <typename T>
HWY_INLINE void ScaleRow(int64_t columns, T factor, T* y) {
  ForEachPart<T>(columns, [&](int64_t i, int64_t left) HWY_ATTR {
    StorePart<T>(hn::Mul(LoadPart<T>(y + i, left, 0), hn::Set(Lanes<T>(), factor)), left, y + i);
  });
}

template <typename T>
void SoftmaxOf(int64_t rows, int64_t columns, const T* x, T* y) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const T sum = RowExponentials<T>(columns, x, RowMaximum<T>(columns, x), y);
    ScaleRow<T>(columns, T{1} / sum, y);
  }
}

template <typename T>
void LogSoftmaxOf(int64_t rows, int64_t columns, const T* x, T* y) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const T maximum = RowMaximum<T>(columns, x);
    const T log_sum = std::log(RowSumOfExponentials<T>(columns, x, maximum));
    ForEachPart<T>(columns, [&](int64_t i, int64_t left) HWY_ATTR {
      const auto shifted = hn::Sub(LoadPart<T>(x + i, left, 0), hn::Set(Lanes<T>(), maximum));
      StorePart<T>(hn::Sub(shifted, hn::Set(Lanes<T>(), log_sum)), left, y + i);
    });
  }
}

template <typename T>
void CrossEntropyOf(int64_t rows, int64_t columns, const T* logits, int64_t logits_stride, const T* labels,
                    int64_t labels_stride, T* loss, T* gradient) {
  const Lanes<T> d;
  for (int64_t r = 0; r < rows; ++r, logits += logits_stride, labels += labels_stride, gradient += columns) {
    const T maximum = RowMaximum<T>(columns, logits);
    const T sum = RowSumOfExponentials<T>(columns, logits, maximum);
    const auto log_sum = hn::Set(d, std::log(sum));
    auto losses = hn::Zero(d);
    ForEachPart<T>(columns, [&](int64_t i, int64_t left) HWY_ATTR {
      const auto label = LoadPart<T>(labels + i, left, 0);
      const auto shifted = hn::Sub(LoadPart<T>(logits + i, left, 0), hn::Set(d, maximum));
      const auto term = hn::Mul(label, hn::Sub(log_sum, shifted));
      losses = hn::Add(losses, hn::IfThenZeroElse(hn::Eq(label, hn::Zero(d)), term));
      const auto probability = hn::Mul(ExpOf<T>(shifted), hn::Set(d, T{1} / sum));
      StorePart<T>(hn::Sub(probability, label), left, gradient + i);
    });
    loss[r] = hn::GetLane(hn::SumOfLanes(d, losses)) + (sum - sum);  // the last term is 0, or NaN when sum is
  }
}

template <typename T, typename Label>
void SparseCrossEntropyOf(int64_t rows, int64_t columns, const T* logits, const Label* labels, T* loss,
                          T* gradient) {
  for (int64_t r = 0; r < rows; ++r, logits += columns, gradient += columns) {
    const T maximum = RowMaximum<T>(columns, logits);
    const T chosen = logits[labels[r]];
    const T sum = RowExponentials<T>(columns, logits, maximum, gradient);
    ScaleRow<T>(columns, T{1} / sum, gradient);
    gradient[labels[r]] -= T{1};
    loss[r] = std::log(sum) - (chosen - maximum);
  }
}

#define WEIR_TARGET_FUNCTIONS(T, Name)                                                                       \
  void AddToRows##Name(int64_t rows, int64_t columns, const T* x, const T* bias, T* y) {                     \
    AddToRowsOf<T>(rows, columns, x, bias, y);                                                               \
  }                                                                                                          \
  void AddColumnSums##Name(int64_t rows, int64_t columns, const T* x, int64_t stride, T* sums) {             \
    AddColumnSumsOf<T>(rows, columns, x, stride, sums);                                                      \
  }                                                                                                          \
  void Softmax##Name(int64_t rows, int64_t columns, const T* x, T* y) { SoftmaxOf<T>(rows, columns, x, y); } \
  void LogSoftmax##Name(int64_t rows, int64_t columns, const T* x, T* y) {                                   \
    LogSoftmaxOf<T>(rows, columns, x, y);                                                                    \
  }                                                                                                          \
  void CrossEntropy##Name(int64_t rows, int64_t columns, const T* logits, int64_t logits_stride,             \
                          const T* labels, int64_t labels_stride, T* loss, T* gradient) {                    \
    CrossEntropyOf<T>(rows, columns, logits, logits_stride, labels, labels_stride, loss, gradient);          \
  }                                                                                                          \
  void SparseCrossEntropy32##Name(int64_t rows, int64_t columns, const T* logits, const int32_t* labels,     \
                                  T* loss, T* gradient) {                                                    \
    SparseCrossEntropyOf<T, int32_t>(rows, columns, logits, labels, loss, gradient);                         \
  }                                                                                                          \
  void SparseCrossEntropy64##Name(int64_t rows, int64_t columns, const T* logits, const int64_t* labels,     \
                                  T* loss, T* gradient) {                                                    \
    SparseCrossEntropyOf<T, int64_t>(rows, columns, logits, labels, loss, gradient);                         \
  }
WEIR_TARGET_FUNCTIONS(float, Float)
WEIR_TARGET_FUNCTIONS(double, Double)

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {

#define WEIR_DISPATCH(T, Name)                                                                               \
  HWY_EXPORT(AddToRows##Name);                                                                               \
  HWY_EXPORT(AddColumnSums##Name);                                                                           \
  HWY_EXPORT(Softmax##Name);                                                                                 \
  HWY_EXPORT(LogSoftmax##Name);                                                                              \
  HWY_EXPORT(CrossEntropy##Name);                                                                            \
  HWY_EXPORT(SparseCrossEntropy32##Name);                                                                    \
  HWY_EXPORT(SparseCrossEntropy64##Name);                                                                    \
  template <>                                                                                                \
  void AddToRows<T>(int64_t rows, int64_t columns, const T* x, const T* bias, T* y) {                        \
    HWY_DYNAMIC_DISPATCH(AddToRows##Name)(rows, columns, x, bias, y);                                        \
  }                                                                                                          \
  template <>                                                                                                \
  void AddColumnSums<T>(int64_t rows, int64_t columns, const T* x, int64_t stride, T* sums) {                \
    HWY_DYNAMIC_DISPATCH(AddColumnSums##Name)(rows, columns, x, stride, sums);                               \
  }                                                                                                          \
  template <>                                                                                                \
  void Softmax<T>(int64_t rows, int64_t columns, const T* x, T* y) {                                         \
    HWY_DYNAMIC_DISPATCH(Softmax##Name)(rows, columns, x, y);                                                \
  }                                                                                                          \
  template <>                                                                                                \
  void LogSoftmax<T>(int64_t rows, int64_t columns, const T* x, T* y) {                                      \
    HWY_DYNAMIC_DISPATCH(LogSoftmax##Name)(rows, columns, x, y);                                             \
  }                                                                                                          \
  template <>                                                                                                \
  void CrossEntropy<T>(int64_t rows, int64_t columns, const T* logits, int64_t logits_stride,                \
                       const T* labels, int64_t labels_stride, T* loss, T* gradient) {                       \
    HWY_DYNAMIC_DISPATCH(CrossEntropy##Name)                                                                 \
    (rows, columns, logits, logits_stride, labels, labels_stride, loss, gradient);                           \
  }                                                                                                          \
  template <>                                                                                                \
  void SparseCrossEntropy<T, int32_t>(int64_t rows, int64_t columns, const T* logits, const int32_t* labels, \
                                      T* loss, T* gradient) {                                                \
    HWY_DYNAMIC_DISPATCH(SparseCrossEntropy32##Name)(rows, columns, logits, labels, loss, gradient);         \
  }                                                                                                          \
  template <>                                                                                                \
  void SparseCrossEntropy<T, int64_t>(int64_t rows, int64_t columns, const T* logits, const int64_t* labels, \
                                      T* loss, T* gradient) {                                                \
    HWY_DYNAMIC_DISPATCH(SparseCrossEntropy64##Name)(rows, columns, logits, labels, loss, gradient);         \
  }
WEIR_DISPATCH(float, Float)
WEIR_DISPATCH(double, Double)

}  // namespace weir
#endif  // HWY_ONCE
