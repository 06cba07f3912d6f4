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

// How to find a pixel's channels in an image of either layout.
struct ImageStrides {
  ImageStrides(const int64_t (&size)[2], int64_t channels, bool channels_first)
      : image(size[0] * size[1] * channels),
        row(size[1] * (channels_first ? 1 : channels)),
        column(channels_first ? 1 : channels),
        channel(channels_first ? size[0] * size[1] : 1) {}
  int64_t image, row, column, channel;
};

struct Layout {
  explicit Layout(const ConvGeometry& g)
      : input(g.windows.input, g.windows.channels, g.windows.channels_first),
        output(g.windows.output, g.output_channels, g.windows.channels_first) {}
  ImageStrides input, output;
};

// Calls body(input offset, output offset) for every output pixel of image n whose window has its element (kh,
// kw) inside the input; offsets are those of the pixels' first channels.
template <typename Body>
void ForEachPixelPair(const ConvGeometry& geometry, const Layout& layout, int64_t n, int64_t kh, int64_t kw,
                      const Body& body) {
  const WindowGeometry& w = geometry.windows;
  for (int64_t oh = 0; oh < w.output[0]; ++oh) {
    const int64_t ih = oh * w.stride[0] - w.padding_before[0] + kh * w.dilation[0];
    if (ih < 0 || ih >= w.input[0]) continue;
    for (int64_t ow = 0; ow < w.output[1]; ++ow) {
      const int64_t iw = ow * w.stride[1] - w.padding_before[1] + kw * w.dilation[1];
      if (iw < 0 || iw >= w.input[1]) continue;
      body(n * layout.input.image + ih * layout.input.row + iw * layout.input.column,
           n * layout.output.image + oh * layout.output.row + ow * layout.output.column);
    }
  }
}

// Calls body(kh, kw, i, filter offset) for every filter element and channel i of the group; the offset is
// that of its first output channel.
template <typename Body>
void ForEachFilterRow(const ConvGeometry& geometry, const Body& body) {
  int64_t offset = 0;
  for (int64_t kh = 0; kh < geometry.windows.window[0]; ++kh) {
    for (int64_t kw = 0; kw < geometry.windows.window[1]; ++kw) {
      for (int64_t i = 0; i < geometry.group_channels; ++i, offset += geometry.output_channels) {
        body(kh, kw, i, offset);
      }
    }
  }
}

}  // namespace

template <typename T>
void PlainConvolution(ThreadPool& threads, const ConvGeometry& geometry, const T* input, const T* filter,
                      T* output) {
  const Layout layout(geometry);
  const int64_t per_group = geometry.output_channels / geometry.groups();
  threads.ParallelFor(
      geometry.windows.batch, geometry.OperationsPerImage() / kOperationsPerNanosecond,
      [&](int64_t begin, int64_t end) {
        std::fill(output + begin * layout.output.image, output + end * layout.output.image, T(0));
        for (int64_t n = begin; n < end; ++n) {
          ForEachFilterRow(geometry, [&](int64_t kh, int64_t kw, int64_t i, int64_t row) {
            ForEachPixelPair(geometry, layout, n, kh, kw, [&](int64_t x, int64_t y) {
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
void PlainInputGradient(ThreadPool& threads, const ConvGeometry& geometry, const T* output_gradient,
                        const T* filter, T* input_gradient) {
  const Layout layout(geometry);
  const int64_t per_group = geometry.output_channels / geometry.groups();
  threads.ParallelFor(geometry.windows.batch, geometry.OperationsPerImage() / kOperationsPerNanosecond,
                      [&](int64_t begin, int64_t end) {
                        std::fill(input_gradient + begin * layout.input.image,
                                  input_gradient + end * layout.input.image, T(0));
                        for (int64_t n = begin; n < end; ++n) {
                          ForEachFilterRow(geometry, [&](int64_t kh, int64_t kw, int64_t i, int64_t row) {
                            ForEachPixelPair(geometry, layout, n, kh, kw, [&](int64_t x, int64_t y) {
                              for (int64_t o = 0; o < geometry.output_channels; ++o) {
                                const int64_t channel = o / per_group * geometry.group_channels + i;
                                T& sum = input_gradient[x + channel * layout.input.channel];
                                sum = MultiplyAdd(output_gradient[y + o * layout.output.channel],
                                                  filter[row + o], sum);
                              }
                            });
                          });
                        }
                      });
}

template <typename T>
void PlainFilterGradient(ThreadPool& threads, const ConvGeometry& geometry, const T* input,
                         const T* output_gradient, T* filter_gradient) {
  const Layout layout(geometry);
  const WindowGeometry& w = geometry.windows;
  const int64_t per_group = geometry.output_channels / geometry.groups();
  const int64_t rows = w.window[0] * w.window[1] * geometry.group_channels;
  const double operations =
      geometry.OperationsPerImage() * static_cast<double>(w.batch) / static_cast<double>(rows);
  threads.ParallelFor(rows, operations / kOperationsPerNanosecond, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t i = row % geometry.group_channels, position = row / geometry.group_channels;
      T* sums = filter_gradient + row * geometry.output_channels;
      std::fill_n(sums, geometry.output_channels, T(0));
      for (int64_t n = 0; n < w.batch; ++n) {
        ForEachPixelPair(geometry, layout, n, position / w.window[1], position % w.window[1],
                         [&](int64_t x, int64_t y) {
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

#define WEIR_INSTANTIATE(T)                                                                      \
  template void PlainConvolution<T>(ThreadPool&, const ConvGeometry&, const T*, const T*, T*);   \
  template void PlainInputGradient<T>(ThreadPool&, const ConvGeometry&, const T*, const T*, T*); \
  template void PlainFilterGradient<T>(ThreadPool&, const ConvGeometry&, const T*, const T*, T*);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
WEIR_INSTANTIATE(int32_t)
#undef WEIR_INSTANTIATE

}  // namespace weir
