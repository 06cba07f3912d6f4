#include "kernels/cpu/nn/plain_convolution.h"

#include <algorithm>
#include <type_traits>

namespace weir {
namespace {

constexpr double kOperationsPerNanosecond = 1;

// int32 products wrap around instead of overflowing.
template <typename T>
T MultiplyAdd(T a, T b, T sum) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b) + static_cast<Unsigned>(sum));
  } else {
    return a * b + sum;
  }
}

// How to find a pixel's channels in an image or volume of either layout.
struct ImageStrides {
  ImageStrides(const SpatialSizes& size, int64_t channels, bool channels_first)
      : image(size[0] * size[1] * size[2] * channels),
        channel(channels_first ? size[0] * size[1] * size[2] : 1) {
    spatial[2] = channels_first ? 1 : channels;
    for (int i = 1; i >= 0; --i) spatial[i] = spatial[i + 1] * size[i + 1];
  }
  int64_t image, channel;
  SpatialSizes spatial;
};

struct Layout {
  explicit Layout(const ConvGeometry& g)
      : input(g.windows.input, g.windows.channels, g.windows.channels_first),
        output(g.windows.output, g.output_channels, g.windows.channels_first) {}
  ImageStrides input, output;
};

// Calls body(input offset, output offset) for every output pixel of image n
// whose window has its element `at` inside the input; offsets are those of the
// pixels' first channels.
template <typename Body>
void ForEachPixelPair(const ConvGeometry& geometry, const Layout& layout, int64_t n, const SpatialSizes& at,
                      const Body& body) {
  const WindowGeometry& w = geometry.windows;
  // The input's place along a dimension for output place o; negative if it lies
  // outside.
  const auto input_at = [&](int i, int64_t o) {
    const int64_t place = o * w.stride[i] - w.padding_before[i] + at[i] * w.dilation[i];
    return place < w.input[i] ? place : -1;
  };
  const SpatialSizes &x = layout.input.spatial, &y = layout.output.spatial;
  for (int64_t o0 = 0; o0 < w.output[0]; ++o0) {
    const int64_t i0 = input_at(0, o0);
    if (i0 < 0) continue;
    for (int64_t o1 = 0; o1 < w.output[1]; ++o1) {
      const int64_t i1 = input_at(1, o1);
      if (i1 < 0) continue;
      for (int64_t o2 = 0; o2 < w.output[2]; ++o2) {
        const int64_t i2 = input_at(2, o2);
        if (i2 < 0) continue;
        body(n * layout.input.image + i0 * x[0] + i1 * x[1] + i2 * x[2],
             n * layout.output.image + o0 * y[0] + o1 * y[1] + o2 * y[2]);
      }
    }
  }
}

// The place in the window of the position that counts its elements.
void SetPlace(const WindowGeometry& w, int64_t position, SpatialSizes& at) {
  at[0] = position / w.window[2] / w.window[1];
  at[1] = position / w.window[2] % w.window[1];
  at[2] = position % w.window[2];
}

// Calls body(at, i, filter offset) for every element of the window and channel
// i of the group; the offset is that of its first output channel. No more when
// the step is over: there may be very many, and each goes over the whole image.
template <typename Body>
void ForEachFilterRow(const TimelyThreads& threads, const ConvGeometry& geometry, const Body& body) {
  const WindowGeometry& w = geometry.windows;
  int64_t offset = 0;
  for (int64_t position = 0; position < w.window[0] * w.window[1] * w.window[2]; ++position) {
    SpatialSizes at;
    SetPlace(w, position, at);
    for (int64_t i = 0; i < geometry.group_channels; ++i, offset += geometry.output_channels) {
      if (threads.is_over()) return;
      body(at, i, offset);
    }
  }
}

}  // namespace

template <typename T>
absl::Status PlainConvolution(const TimelyThreads& threads, const ConvGeometry& geometry, const T* input,
                              const T* filter, T* output) {
  const Layout layout(geometry);
  const int64_t per_group = geometry.output_channels / geometry.groups();
  return ParallelForInTime(
      threads, geometry.windows.batch, geometry.OperationsPerImage() / kOperationsPerNanosecond,
      [&](int64_t begin, int64_t end) {
        std::fill(output + begin * layout.output.image, output + end * layout.output.image, T(0));
        for (int64_t n = begin; n < end; ++n) {
          ForEachFilterRow(threads, geometry, [&](const SpatialSizes& at, int64_t i, int64_t row) {
            ForEachPixelPair(geometry, layout, n, at, [&](int64_t x, int64_t y) {
              for (int64_t o = 0; o < geometry.output_channels; ++o) {
                const int64_t channel = o / per_group * geometry.group_channels + i;
                T& sum = output[y + o * layout.output.channel];
                sum = MultiplyAdd(input[x + channel * layout.input.channel], filter[row + o], sum);
              }
            });
          });
        }
      });
}

template <typename T>
absl::Status PlainInputGradient(const TimelyThreads& threads, const ConvGeometry& geometry,
                                const T* output_gradient, const T* filter, T* input_gradient) {
  const Layout layout(geometry);
  const int64_t per_group = geometry.output_channels / geometry.groups();
  return ParallelForInTime(
      threads, geometry.windows.batch, geometry.OperationsPerImage() / kOperationsPerNanosecond,
      [&](int64_t begin, int64_t end) {
        std::fill(input_gradient + begin * layout.input.image, input_gradient + end * layout.input.image,
                  T(0));
        for (int64_t n = begin; n < end; ++n) {
          ForEachFilterRow(threads, geometry, [&](const SpatialSizes& at, int64_t i, int64_t row) {
            ForEachPixelPair(geometry, layout, n, at, [&](int64_t x, int64_t y) {
              for (int64_t o = 0; o < geometry.output_channels; ++o) {
                const int64_t channel = o / per_group * geometry.group_channels + i;
                T& sum = input_gradient[x + channel * layout.input.channel];
                sum = MultiplyAdd(output_gradient[y + o * layout.output.channel], filter[row + o], sum);
              }
            });
          });
        }
      });
}

template <typename T>
absl::Status PlainFilterGradient(const TimelyThreads& threads, const ConvGeometry& geometry, const T* input,
                                 const T* output_gradient, T* filter_gradient) {
  const Layout layout(geometry);
  const WindowGeometry& w = geometry.windows;
  const int64_t per_group = geometry.output_channels / geometry.groups();
  const int64_t rows = w.window[0] * w.window[1] * w.window[2] * geometry.group_channels;
  const double operations =
      geometry.OperationsPerImage() * static_cast<double>(w.batch) / static_cast<double>(rows);
  return ParallelForInTime(
      threads, rows, operations / kOperationsPerNanosecond, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t i = row % geometry.group_channels, position = row / geometry.group_channels;
          SpatialSizes at;
          SetPlace(w, position, at);
          T* sums = filter_gradient + row * geometry.output_channels;
          std::fill_n(sums, geometry.output_channels, T(0));
          for (int64_t n = 0; n < w.batch && !threads.is_over(); ++n) {
            ForEachPixelPair(geometry, layout, n, at, [&](int64_t x, int64_t y) {
              for (int64_t o = 0; o < geometry.output_channels; ++o) {
                const int64_t channel = o / per_group * geometry.group_channels + i;
                sums[o] = MultiplyAdd(input[x + channel * layout.input.channel],
                                      output_gradient[y + o * layout.output.channel], sums[o]);
              }
            });
          }
        }
      });
}

#define WEIR_INSTANTIATE(T)                                                                                  \
  template absl::Status PlainConvolution<T>(const TimelyThreads&, const ConvGeometry&, const T*, const T*,   \
                                            T*);                                                             \
  template absl::Status PlainInputGradient<T>(const TimelyThreads&, const ConvGeometry&, const T*, const T*, \
                                              T*);                                                           \
  template absl::Status PlainFilterGradient<T>(const TimelyThreads&, const ConvGeometry&, const T*,          \
                                               const T*, T*);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
WEIR_INSTANTIATE(int32_t)
#undef WEIR_INSTANTIATE

}  // namespace weir
