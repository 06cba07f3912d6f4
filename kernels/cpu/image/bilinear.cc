// ResizeBilinear and its gradient.
#include <algorithm>

#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/image/image_types.h"
#include "kernels/cpu/image/resize_geometry.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kElementCost = 3;  // nanoseconds on one core

absl::StatusOr<Scratch<Neighbors>> AllNeighbors(KernelContext& context, const ResizedAxis& axis,
                                                bool half_pixel_centers) {
  WEIR_ASSIGN_OR_RETURN(Scratch<Neighbors> all, Scratch<Neighbors>::Allocate(context, axis.resized));
  for (int64_t i = 0; i < axis.resized; ++i) all[i] = axis.Between(i, half_pixel_centers);
  return all;
}

template <typename T>
class ResizeBilinear final : public Kernel {
 public:
  explicit ResizeBilinear(const KernelConstruction& construction) : attrs_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ResizeGeometry g, attrs_.OfImages(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, g.ResizedShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const absl::Span<const T> from = context.input(0).flat<T>();
    float* const to = output->flat<float>().data();
    if (g.rows.original == g.rows.resized && g.columns.original == g.columns.resized) {
      std::transform(from.begin(), from.end(), to, [](T x) { return static_cast<float>(x); });
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(const Scratch<Neighbors> columns,
                          AllNeighbors(context, g.columns, attrs_.half_pixel_centers()));
    const int64_t row_elements = g.ResizedRowElements();
    return ParallelForInTime(
        context, g.batch * g.rows.resized, kElementCost * static_cast<double>(row_elements),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* const image = from.data() + i / g.rows.resized * g.OriginalElements();
            const Neighbors row = g.rows.Between(i % g.rows.resized, attrs_.half_pixel_centers());
            ResizeRow(image + row.lower * g.OriginalRowElements(),
                      image + row.upper * g.OriginalRowElements(), row.fraction, columns, g.channels,
                      to + i * row_elements);
          }
        });
  }

 private:
  static void ResizeRow(const T* upper_row, const T* lower_row, float y, const Scratch<Neighbors>& columns,
                        int64_t channels, float* to) {
    for (const Neighbors& column : columns) {
      const T *const a = upper_row + column.lower * channels, *const b = upper_row + column.upper * channels;
      const T *const c = lower_row + column.lower * channels, *const d = lower_row + column.upper * channels;
      for (int64_t k = 0; k < channels; ++k) {
        const auto left = static_cast<float>(a[k]), below = static_cast<float>(c[k]);
        const float top = left + (static_cast<float>(b[k]) - left) * column.fraction;
        const float bottom = below + (static_cast<float>(d[k]) - below) * column.fraction;
        *to++ = top + (bottom - top) * y;
      }
    }
  }

  const ResizeAttrs attrs_;
};

// Each gradient flows to the four pixels that were interpolated. 16-bit sums are kept in float.
template <typename T>
class ResizeBilinearGrad final : public Kernel {
 public:
  explicit ResizeBilinearGrad(const KernelConstruction& construction) : attrs_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ResizeGeometry g, attrs_.OfGradients(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, g.OriginalShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor sums, WideOutput(context, *output));
    WEIR_ASSIGN_OR_RETURN(const Scratch<Neighbors> columns,
                          AllNeighbors(context, g.columns, attrs_.half_pixel_centers()));
    const float* const from = context.input(0).flat<float>().data();
    Wide* const to = sums.flat<Wide>().data();
    const int64_t gradients = g.rows.resized * g.ResizedRowElements();
    WEIR_RETURN_IF_ERROR(ParallelForInTime(
        context, g.batch, 4 * kElementCost * static_cast<double>(gradients), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            AddImage(g, columns, from + i * gradients, to + i * g.OriginalElements());
          }
        }));
    Narrow(context, sums, output);
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;

  void AddImage(const ResizeGeometry& g, const Scratch<Neighbors>& columns, const float* from,
                Wide* image) const {
    std::fill_n(image, g.OriginalElements(), Wide(0));
    for (int64_t y = 0; y < g.rows.resized; ++y) {
      const Neighbors row = g.rows.Between(y, attrs_.half_pixel_centers());
      Wide* const top = image + row.lower * g.OriginalRowElements();
      Wide* const bottom = image + row.upper * g.OriginalRowElements();
      for (const Neighbors& column : columns) {
        const int64_t left = column.lower * g.channels, right = column.upper * g.channels;
        for (int64_t k = 0; k < g.channels; ++k) {
          const float gradient = *from++;
          const float above = gradient * (1 - row.fraction), below = gradient * row.fraction;
          top[left + k] += static_cast<Wide>(above * (1 - column.fraction));
          top[right + k] += static_cast<Wide>(above * column.fraction);
          bottom[left + k] += static_cast<Wide>(below * (1 - column.fraction));
          bottom[right + k] += static_cast<Wide>(below * column.fraction);
        }
      }
    }
  }

  const ResizeAttrs attrs_;
};

}  // namespace

void RegisterBilinearKernels(DeviceKernels& kernels) {
  kernels.Add<ResizeBilinear>("ResizeBilinear", PixelTypes());
  kernels.Add<ResizeBilinearGrad>("ResizeBilinearGrad", Types<float, double, Half, Bfloat16>("T"));
}

}  // namespace weir
