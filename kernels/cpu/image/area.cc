// ResizeArea: each pixel is the mean of the pixels that it covers, those at its border by their parts.
#include <algorithm>
#include <cmath>

#include "graph/types/status_macros.h"
#include "kernels/cpu/image/image_types.h"
#include "kernels/cpu/image/resize_geometry.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kPixelCost = 1;  // nanoseconds on one core

// The pixels [begin, end) of one axis that a resized pixel covers, from `from` to `to`.
struct Cover {
  int64_t begin, end;
  float from, to, scale;

  Cover(const ResizedAxis& axis, int64_t i)
      : from(static_cast<float>(i) * axis.scale),
        to(static_cast<float>(i + 1) * axis.scale),
        scale(axis.scale) {
    begin = static_cast<int64_t>(std::floor(from));
    end = static_cast<int64_t>(std::ceil(to));
  }
  // How much of a pixel is covered.
  float Part(int64_t pixel) const {
    const auto at = static_cast<float>(pixel);
    if (at < from) return at + 1 > to ? scale : at + 1 - from;
    return at + 1 > to ? to - at : 1.0f;
  }
};

template <typename T>
class ResizeArea final : public Kernel {
 public:
  explicit ResizeArea(const KernelConstruction& construction) : attrs_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ResizeGeometry g, attrs_.OfImages(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, g.ResizedShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const from = context.input(0).flat<T>().data();
    float* const to = output->flat<float>().data();
    const double covered = (g.rows.scale + 1) * (g.columns.scale + 1);
    const int64_t row_elements = g.ResizedRowElements();
    return ParallelForInTime(context, g.batch * g.rows.resized,
                             kPixelCost * covered * static_cast<double>(row_elements),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 ResizeRow(g, from + i / g.rows.resized * g.OriginalElements(),
                                           Cover(g.rows, i % g.rows.resized), to + i * row_elements);
                               }
                             });
  }

 private:
  static void ResizeRow(const ResizeGeometry& g, const T* image, const Cover& rows, float* to) {
    const auto scale = static_cast<float>(1.0 / (g.rows.scale * g.columns.scale));
    for (int64_t x = 0; x < g.columns.resized; ++x) {
      const Cover columns(g.columns, x);
      for (int64_t k = 0; k < g.channels; ++k) {
        float sum = 0;
        for (int64_t y = rows.begin; y < rows.end; ++y) {
          sum += RowSum(g, image + g.rows.Clamp(y) * g.OriginalRowElements() + k, columns) * rows.Part(y);
        }
        *to++ = sum * scale;
      }
    }
  }

  static float RowSum(const ResizeGeometry& g, const T* row, const Cover& columns) {
    float sum = 0;
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const auto value = static_cast<float>(row[g.columns.Clamp(x) * g.channels]);
      sum += x == columns.begin || x + 1 == columns.end ? value * columns.Part(x) : value;
    }
    return sum;
  }

  const ResizeAttrs attrs_;
};

}  // namespace

void RegisterAreaKernels(DeviceKernels& kernels) { kernels.Add<ResizeArea>("ResizeArea", PixelTypes()); }

}  // namespace weir
