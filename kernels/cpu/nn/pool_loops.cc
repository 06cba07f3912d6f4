// Compiled once per instruction set: the compiler turns the plain loops into that set's vector instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nn/pool_loops.cc"
// AVX2 and AVX-512 machines are what Weir is tuned for; one plain build serves everything older.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "kernels/cpu/nn/pool_loops.h"

#include <algorithm>
#include <type_traits>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/loop_pragmas.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The pixels of the input that the window of one output pixel covers.
struct Window {
  int64_t begin[2];
  int64_t end[2];
  int64_t size() const { return (end[0] - begin[0]) * (end[1] - begin[1]); }
  bool is_empty() const { return begin[0] >= end[0] || begin[1] >= end[1]; }  // lies in the padding
};

Window WindowAt(const WindowGeometry& g, const int64_t (&at)[2]) {
  Window window;
  for (int i = 0; i < 2; ++i) {
    const int64_t start = at[i] * g.stride[i] - g.padding_before[i];
    window.begin[i] = start > 0 ? start : 0;
    window.end[i] = start + g.window[i] < g.input[i] ? start + g.window[i] : g.input[i];
  }
  return window;
}

// Calls body(window, output offset) for each output pixel.
template <typename Body>
HWY_INLINE void ForEachWindow(const WindowGeometry& g, const Body& body) {
  int64_t offset = 0;
  for (int64_t h = 0; h < g.output[0]; ++h) {
    for (int64_t w = 0; w < g.output[1]; ++w, offset += g.channels) body(WindowAt(g, {h, w}), offset);
  }
}

// Calls body(input offset) for each pixel of the window, row by row.
template <typename Body>
HWY_INLINE void ForEachPixel(const WindowGeometry& g, const Window& window, const Body& body) {
  for (int64_t h = window.begin[0]; h < window.end[0]; ++h) {
    for (int64_t w = window.begin[1]; w < window.end[1]; ++w) body((h * g.input[1] + w) * g.channels);
  }
}

// Calls body(tag, channel) for vectors of channels, then for the rest one by one.
template <typename T, typename Body>
HWY_INLINE void ForEachVector(int64_t channels, const Body& body) {
  const hn::ScalableTag<T> vector;
  const hn::CappedTag<T, 1> single;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(vector));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) body(vector, c);
  for (; c < channels; ++c) body(single, c);
}

// `largest` where x is NaN.
template <typename D, typename V>
HWY_INLINE V LargerOf(D, V x, V largest) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    return hn::IfThenElse(hn::Gt(x, largest), x, largest);
  } else {
    return hn::Max(x, largest);
  }
}

template <typename D, typename V>
HWY_INLINE hn::Mask<D> IsNan(D d, V v) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    return hn::IsNaN(v);
  } else {
    return hn::FirstN(d, 0);
  }
}

// The largest of `largest` and the window's elements in the channels from `input` on.
template <typename D, typename T>
HWY_INLINE hn::Vec<D> LargestOf(D d, const WindowGeometry& g, const Window& window, const T* input,
                                hn::Vec<D> largest) {
  ForEachPixel(g, window,
               [&](int64_t x) HWY_ATTR { largest = LargerOf(d, hn::LoadU(d, input + x), largest); });
  return largest;
}

template <typename T>
void Max(const WindowGeometry& g, const T* input, T lowest, T* output) {
  ForEachWindow(g, [&](const Window& window, int64_t y) HWY_ATTR {
    ForEachVector<T>(g.channels, [&](auto d, int64_t c) HWY_ATTR {
      hn::StoreU(LargestOf(d, g, window, input + c, hn::Set(d, lowest)), d, output + y + c);
    });
  });
}

// Where x is the largest the pending gradient is delivered, and is pending no more. When the largest is NaN,
// which equals nothing, it is the first pixel.
template <typename T>
void MaxGradient(const WindowGeometry& g, const T* input, const T* gradient, T* input_gradient) {
  ForEachWindow(g, [&](const Window& window, int64_t y) HWY_ATTR {
    if (window.is_empty()) return;
    const T* const first = input + (window.begin[0] * g.input[1] + window.begin[1]) * g.channels;
    ForEachVector<T>(g.channels, [&](auto d, int64_t c) HWY_ATTR {
      const auto largest = LargestOf(d, g, window, input + c, hn::LoadU(d, first + c));
      const auto is_nan = IsNan(d, largest);
      auto pending = hn::LoadU(d, gradient + y + c);
      ForEachPixel(g, window, [&](int64_t x) HWY_ATTR {
        const auto hit = hn::Or(is_nan, hn::Eq(hn::LoadU(d, input + x + c), largest));
        const auto sum = hn::LoadU(d, input_gradient + x + c);
        hn::StoreU(hn::Add(sum, hn::IfThenElseZero(hit, pending)), d, input_gradient + x + c);
        pending = hn::IfThenZeroElse(hit, pending);
      });
    });
  });
}

template <typename T>
void PickAtMax(const WindowGeometry& g, const T* input, const T* maxima, const T* values, T* output) {
  ForEachWindow(g, [&](const Window& window, int64_t y) HWY_ATTR {
    ForEachVector<T>(g.channels, [&](auto d, int64_t c) HWY_ATTR {
      const auto maximum = hn::LoadU(d, maxima + y + c);
      auto picked = hn::Zero(d);
      auto is_pending = hn::Eq(picked, picked);
      ForEachPixel(g, window, [&](int64_t x) HWY_ATTR {
        const auto hit = hn::And(is_pending, hn::Eq(hn::LoadU(d, input + x + c), maximum));
        picked = hn::IfThenElse(hit, hn::LoadU(d, values + x + c), picked);
        is_pending = hn::AndNot(hit, is_pending);
      });
      hn::StoreU(picked, d, output + y + c);
    });
  });
}

template <typename T>
HWY_INLINE void AddPixel(int64_t channels, T factor, const T* from, T* to) {
  WEIR_ELEMENTWISE_LOOP
  for (int64_t c = 0; c < channels; ++c) to[c] += factor * from[c];
}

template <typename T>
void Average(const WindowGeometry& g, const T* input, T* output) {
  ForEachWindow(g, [&](const Window& window, int64_t y) HWY_ATTR {
    std::fill_n(output + y, g.channels, T(0));
    const T factor = T(1) / static_cast<T>(std::max<int64_t>(1, window.size()));
    ForEachPixel(g, window, [&](int64_t x) HWY_ATTR { AddPixel(g.channels, factor, input + x, output + y); });
  });
}

template <typename T>
void AverageGradient(const WindowGeometry& g, const T* gradient, T* input_gradient) {
  ForEachWindow(g, [&](const Window& window, int64_t y) HWY_ATTR {
    const T factor = T(1) / static_cast<T>(std::max<int64_t>(1, window.size()));
    ForEachPixel(g, window,
                 [&](int64_t x) HWY_ATTR { AddPixel(g.channels, factor, gradient + y, input_gradient + x); });
  });
}

template <typename T>
PoolLoops<T> Loops() {
  if constexpr (std::is_floating_point_v<T>) {
    return {&Max<T>, &MaxGradient<T>, &PickAtMax<T>, &Average<T>, &AverageGradient<T>};
  } else {
    return {&Max<T>, &MaxGradient<T>, &PickAtMax<T>, nullptr, nullptr};
  }
}

}  // namespace

PoolLoops<float> FloatLoops() { return Loops<float>(); }
PoolLoops<double> DoubleLoops() { return Loops<double>(); }
PoolLoops<int8_t> Int8Loops() { return Loops<int8_t>(); }
PoolLoops<int16_t> Int16Loops() { return Loops<int16_t>(); }
PoolLoops<int32_t> Int32Loops() { return Loops<int32_t>(); }
PoolLoops<int64_t> Int64Loops() { return Loops<int64_t>(); }
PoolLoops<uint8_t> Uint8Loops() { return Loops<uint8_t>(); }
PoolLoops<uint16_t> Uint16Loops() { return Loops<uint16_t>(); }
PoolLoops<uint32_t> Uint32Loops() { return Loops<uint32_t>(); }
PoolLoops<uint64_t> Uint64Loops() { return Loops<uint64_t>(); }

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {

#define WEIR_DISPATCH(T, Function)           \
  HWY_EXPORT(Function);                      \
  template <>                                \
  PoolLoops<T> PoolLoopsFor<T>() {           \
    return HWY_DYNAMIC_DISPATCH(Function)(); \
  }
WEIR_DISPATCH(float, FloatLoops)
WEIR_DISPATCH(double, DoubleLoops)
WEIR_DISPATCH(int8_t, Int8Loops)
WEIR_DISPATCH(int16_t, Int16Loops)
WEIR_DISPATCH(int32_t, Int32Loops)
WEIR_DISPATCH(int64_t, Int64Loops)
WEIR_DISPATCH(uint8_t, Uint8Loops)
WEIR_DISPATCH(uint16_t, Uint16Loops)
WEIR_DISPATCH(uint32_t, Uint32Loops)
WEIR_DISPATCH(uint64_t, Uint64Loops)

}  // namespace weir
#endif  // HWY_ONCE
