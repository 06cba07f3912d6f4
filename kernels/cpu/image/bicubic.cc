// ResizeBicubic and its gradient.
//
// The cubic functions are those of R. Keys, "Cubic convolution interpolation for digital image processing",
// IEEE Transactions on Acoustics, Speech, and Signal Processing 29 (1981), with a = -1/2 for half pixel
// centers and a = -3/4 otherwise. TensorFlow takes their values at multiples of 1/1024, and leaves out pixels
// beyond the border with half pixel centers, but repeats the border otherwise (resize_bicubic_op.cc).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "graph/types/status_macros.h"
#include "kernels/cpu/image/image_types.h"
#include "kernels/cpu/image/resize_geometry.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kElementCost = 20;  // nanoseconds on one core

// Four pixels of one axis.
struct Taps {
  std::array<int64_t, 4> pixels;
  std::array<float, 4> weights;
};

// The weight of a pixel in a distance of x = steps / 1024 in [0, 1], and of one in a distance of x + 1.
struct CubicFunction {
  double a;

  float Near(int64_t steps) const {
    const auto x = static_cast<float>(static_cast<double>(steps) / 1024);
    return static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1);
  }
  float Far(int64_t steps) const {
    const auto x = static_cast<float>(static_cast<float>(static_cast<double>(steps) / 1024) + 1.0);
    return static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
  }
};

void Normalize(std::array<float, 4>& weights) {
  const float sum = weights[0] + weights[1] + weights[2] + weights[3];
  if (std::abs(sum) < 1000 * std::numeric_limits<float>::min()) return;
  for (float& weight : weights) weight *= 1 / sum;
}

Taps TapsOf(const ResizedAxis& axis, int64_t i, bool half_pixel_centers) {
  const float position = axis.Position(i, half_pixel_centers);
  const auto first = static_cast<int64_t>(std::floor(position));
  const int64_t steps = std::lrint((position - static_cast<float>(first)) * 1024);
  const CubicFunction cubic = {half_pixel_centers ? -0.5 : -0.75};
  Taps taps;
  taps.weights = {cubic.Far(steps), cubic.Near(steps), cubic.Near(1024 - steps), cubic.Far(1024 - steps)};
  for (int k = 0; k < 4; ++k) {
    taps.pixels[k] = axis.Clamp(first - 1 + k);
    if (half_pixel_centers && taps.pixels[k] != first - 1 + k) taps.weights[k] = 0;
  }
  if (half_pixel_centers) Normalize(taps.weights);
  return taps;
}

absl::StatusOr<Scratch<Taps>> AllTaps(KernelContext& context, const ResizedAxis& axis,
                                      bool half_pixel_centers) {
  WEIR_ASSIGN_OR_RETURN(Scratch<Taps> all, Scratch<Taps>::Allocate(context, axis.resized));
  for (int64_t i = 0; i < axis.resized; ++i) all[i] = TapsOf(axis, i, half_pixel_centers);
  return all;
}

template <typename T>
class ResizeBicubic final : public Kernel {
 public:
  explicit ResizeBicubic(const KernelConstruction& construction) : attrs_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ResizeGeometry g, attrs_.OfImages(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, g.ResizedShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Scratch<Taps> columns,
                          AllTaps(context, g.columns, attrs_.half_pixel_centers()));
    const T* const from = context.input(0).flat<T>().data();
    float* const to = output->flat<float>().data();
    const int64_t row_elements = g.ResizedRowElements();
    return ParallelForInTime(
        context, g.batch * g.rows.resized, kElementCost * static_cast<double>(row_elements),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* const image = from + i / g.rows.resized * g.OriginalElements();
            const Taps row = TapsOf(g.rows, i % g.rows.resized, attrs_.half_pixel_centers());
            std::array<const T*, 4> rows;
            for (int k = 0; k < 4; ++k) rows[k] = image + row.pixels[k] * g.OriginalRowElements();
            ResizeRow(rows, row.weights, columns, g.channels, to + i * row_elements);
          }
        });
  }

 private:
  static void ResizeRow(const std::array<const T*, 4>& rows, const std::array<float, 4>& y,
                        const Scratch<Taps>& columns, int64_t channels, float* to) {
    for (const Taps& column : columns) {
      for (int64_t k = 0; k < channels; ++k) {
        std::array<float, 4> values;
        for (int j = 0; j < 4; ++j) {
          const int64_t at = column.pixels[j] * channels + k;
          values[j] = static_cast<float>(rows[0][at]) * y[0] + static_cast<float>(rows[1][at]) * y[1] +
                      static_cast<float>(rows[2][at]) * y[2] + static_cast<float>(rows[3][at]) * y[3];
        }
        const std::array<float, 4>& x = column.weights;
        *to++ = values[0] * x[0] + values[1] * x[1] + values[2] * x[2] + values[3] * x[3];
      }
    }
  }

  const ResizeAttrs attrs_;
};

template <typename T>
class ResizeBicubicGrad final : public Kernel {
 public:
  explicit ResizeBicubicGrad(const KernelConstruction& construction) : attrs_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ResizeGeometry g, attrs_.OfGradients(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, g.OriginalShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Scratch<Taps> columns,
                          AllTaps(context, g.columns, attrs_.half_pixel_centers()));
    const float* const from = context.input(0).flat<float>().data();
    T* const to = output->flat<T>().data();
    const int64_t gradients = g.rows.resized * g.ResizedRowElements();
    return ParallelForInTime(
        context, g.batch, kElementCost * static_cast<double>(gradients), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            AddImage(context, g, columns, from + i * gradients, to + i * g.OriginalElements());
          }
        });
  }

 private:
  void AddImage(const TimelyThreads& threads, const ResizeGeometry& g, const Scratch<Taps>& columns,
                const float* from, T* image) const {
    std::fill_n(image, g.OriginalElements(), T(0));
    for (int64_t y = 0; y < g.rows.resized && !threads.is_over(); ++y) {
      const Taps row = TapsOf(g.rows, y, attrs_.half_pixel_centers());
      for (const Taps& column : columns) {
        for (int64_t k = 0; k < g.channels; ++k) {
          const float gradient = *from++;
          for (int j = 0; j < 4; ++j) {
            T* const target = image + row.pixels[j] * g.OriginalRowElements() + k;
            for (int i = 0; i < 4; ++i) {
              target[column.pixels[i] * g.channels] +=
                  static_cast<T>(gradient * row.weights[j] * column.weights[i]);
            }
          }
        }
      }
    }
  }

  const ResizeAttrs attrs_;
};

}  // namespace

void RegisterBicubicKernels(DeviceKernels& kernels) {
  kernels.Add<ResizeBicubic>("ResizeBicubic", PixelTypes());
  kernels.Add<ResizeBicubicGrad>("ResizeBicubicGrad", Types<float, double>("T"));
}

}  // namespace weir
