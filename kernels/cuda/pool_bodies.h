// What one thread of a kernel of pooling does, compiled for GPUs and for the host, where tests run it.
//
// A thread makes an element of the result at a time. That of a gradient adds up what the windows over it give
// it, in their order: nothing is added atomically, and the sums are the CPU's.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cuda/element_bodies.h"
#include "kernels/host_device.h"

namespace weir::cuda {

// Images with channels last. Those with channels first are as many images with one channel each.
struct PoolDims {
  int64_t channels;
  int64_t input[2], output[2], window[2], stride[2], padding[2];  // height and width

  // Of an output place along a dimension: the part of its window inside the input.
  WEIR_HOST_DEVICE int64_t Begin(int d, int64_t place) const {
    const int64_t begin = place * stride[d] - padding[d];
    return begin > 0 ? begin : 0;
  }
  WEIR_HOST_DEVICE int64_t End(int d, int64_t place) const {
    const int64_t end = place * stride[d] - padding[d] + window[d];
    return end < input[d] ? end : input[d];
  }
  // Of an input place: the output places whose windows have it, up to before LastOver.
  WEIR_HOST_DEVICE int64_t FirstOver(int d, int64_t place) const {
    const int64_t before = place + padding[d] - window[d];  // the last place that is left of the first window
    return before < 0 ? 0 : before / stride[d] + 1;
  }
  WEIR_HOST_DEVICE int64_t LastOver(int d, int64_t place) const {
    const int64_t end = (place + padding[d]) / stride[d] + 1;
    return end < output[d] ? end : output[d];
  }
};

// An element of images of `size`.
struct PoolPlace {
  int64_t image, at[2], channel;

  WEIR_HOST_DEVICE static PoolPlace Of(int64_t element, const int64_t (&size)[2], int64_t channels) {
    const int64_t pixel = element / channels;
    return {pixel / size[1] / size[0], {pixel / size[1] % size[0], pixel % size[1]}, element % channels};
  }
};

WEIR_HOST_DEVICE inline int64_t PixelOf(int64_t image, const int64_t (&size)[2], int64_t h, int64_t w) {
  return (image * size[0] + h) * size[1] + w;
}

// What MaxPool gives when no element is larger, as the number that is computed with.
template <typename T>
WEIR_HOST_DEVICE constexpr auto LowestOf() {
  if constexpr (std::is_same_v<T, Half>) {
    return -65504.0f;
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return -0x1.fep127f;
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

// n elements of y. NaN does not count.
template <typename T>
WEIR_HOST_DEVICE void MaxPoolBody(ThreadPosition thread, const T* x, T* y, int64_t n, const PoolDims& dims) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const PoolPlace place = PoolPlace::Of(i, dims.output, dims.channels);
    auto largest = LowestOf<T>();
    for (int64_t h = dims.Begin(0, place.at[0]); h < dims.End(0, place.at[0]); ++h) {
      for (int64_t w = dims.Begin(1, place.at[1]); w < dims.End(1, place.at[1]); ++w) {
        const auto value = Load(x[PixelOf(place.image, dims.input, h, w) * dims.channels + place.channel]);
        if (value > largest) largest = value;
      }
    }
    Store(y[i], largest);
  }
}

// Where the gradient of an output goes: the first of its window's elements that is the largest; the first of
// all when that is NaN.
template <typename T>
WEIR_HOST_DEVICE int64_t ElementOfMax(const T* x, const PoolPlace& place, int64_t oh, int64_t ow,
                                      const PoolDims& dims) {
  int64_t winner =
      PixelOf(place.image, dims.input, dims.Begin(0, oh), dims.Begin(1, ow)) * dims.channels + place.channel;
  auto largest = Load(x[winner]);
  for (int64_t h = dims.Begin(0, oh); h < dims.End(0, oh); ++h) {
    for (int64_t w = dims.Begin(1, ow); w < dims.End(1, ow); ++w) {
      const int64_t element = PixelOf(place.image, dims.input, h, w) * dims.channels + place.channel;
      const auto value = Load(x[element]);
      if (value > largest) {
        largest = value;
        winner = element;
      }
    }
  }
  return winner;
}

// n elements of dx.
template <typename T>
WEIR_HOST_DEVICE void MaxPoolGradBody(ThreadPosition thread, const T* x, const T* dy, T* dx, int64_t n,
                                      const PoolDims& dims) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const PoolPlace place = PoolPlace::Of(i, dims.input, dims.channels);
    std::decay_t<decltype(Load(*dy))> sum = 0;
    for (int64_t h = dims.FirstOver(0, place.at[0]); h < dims.LastOver(0, place.at[0]); ++h) {
      for (int64_t w = dims.FirstOver(1, place.at[1]); w < dims.LastOver(1, place.at[1]); ++w) {
        if (ElementOfMax(x, place, h, w, dims) != i) continue;
        sum += Load(dy[PixelOf(place.image, dims.output, h, w) * dims.channels + place.channel]);
      }
    }
    Store(dx[i], sum);
  }
}

// One through the elements of the window's part inside the input.
template <typename Number>
WEIR_HOST_DEVICE Number AverageFactor(const PoolDims& dims, int64_t oh, int64_t ow) {
  const int64_t height = dims.End(0, oh) - dims.Begin(0, oh), width = dims.End(1, ow) - dims.Begin(1, ow);
  return Number(1) / static_cast<Number>(height * width > 1 ? height * width : 1);
}

template <typename T>
WEIR_HOST_DEVICE void AvgPoolBody(ThreadPosition thread, const T* x, T* y, int64_t n, const PoolDims& dims) {
  using Number = std::decay_t<decltype(Load(*x))>;
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const PoolPlace place = PoolPlace::Of(i, dims.output, dims.channels);
    const Number factor = AverageFactor<Number>(dims, place.at[0], place.at[1]);
    Number sum = 0;
    for (int64_t h = dims.Begin(0, place.at[0]); h < dims.End(0, place.at[0]); ++h) {
      for (int64_t w = dims.Begin(1, place.at[1]); w < dims.End(1, place.at[1]); ++w) {
        sum += factor * Load(x[PixelOf(place.image, dims.input, h, w) * dims.channels + place.channel]);
      }
    }
    Store(y[i], sum);
  }
}

template <typename T>
WEIR_HOST_DEVICE void AvgPoolGradBody(ThreadPosition thread, const T* dy, T* dx, int64_t n,
                                      const PoolDims& dims) {
  using Number = std::decay_t<decltype(Load(*dy))>;
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const PoolPlace place = PoolPlace::Of(i, dims.input, dims.channels);
    Number sum = 0;
    for (int64_t h = dims.FirstOver(0, place.at[0]); h < dims.LastOver(0, place.at[0]); ++h) {
      for (int64_t w = dims.FirstOver(1, place.at[1]); w < dims.LastOver(1, place.at[1]); ++w) {
        sum += AverageFactor<Number>(dims, h, w) *
               Load(dy[PixelOf(place.image, dims.output, h, w) * dims.channels + place.channel]);
      }
    }
    Store(dx[i], sum);
  }
}

}  // namespace weir::cuda
