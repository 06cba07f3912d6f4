// ResizeNearestNeighbor and its gradient.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/image/image_types.h"
#include "kernels/cpu/image/resize_geometry.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// The pixel of the image that each resized one is a copy of.
absl::StatusOr<Scratch<int64_t>> Sources(KernelContext& context, const ResizedAxis& axis,
                                         const ResizeAttrs& attrs) {
  WEIR_ASSIGN_OR_RETURN(Scratch<int64_t> sources, Scratch<int64_t>::Allocate(context, axis.resized));
  for (int64_t i = 0; i < axis.resized; ++i) {
    const auto x = static_cast<float>(static_cast<int>(i));
    const float position = attrs.half_pixel_centers() ? (x + 0.5f) * axis.scale : x * axis.scale;
    const float pixel = attrs.align_corners() ? std::round(position) : std::floor(position);
    sources[i] = axis.Clamp(static_cast<int64_t>(pixel));
  }
  return sources;
}

template <typename T>
class ResizeNearestNeighbor final : public Kernel {
 public:
  explicit ResizeNearestNeighbor(const KernelConstruction& construction) : attrs_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ResizeGeometry g, attrs_.OfImages(context));
    constexpr int64_t kMostExact = 1 << 24;  // pixels that floats count
    if (g.rows.original >= kMostExact || g.columns.original >= kMostExact) {
      return absl::InvalidArgumentError(
          absl::StrCat("nearest neighbor requires max height & width of 2^24, images are ",
                       context.input(0).shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, g.ResizedShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Scratch<int64_t> rows, Sources(context, g.rows, attrs_));
    WEIR_ASSIGN_OR_RETURN(const Scratch<int64_t> columns, Sources(context, g.columns, attrs_));
    const T* const from = context.input(0).flat<T>().data();
    T* const to = output->flat<T>().data();
    return ParallelForInTime(context, g.batch * g.rows.resized, static_cast<double>(g.ResizedRowElements()),
                             [&](int64_t begin, int64_t end) {
                               T* pixel = to + begin * g.ResizedRowElements();
                               for (int64_t i = begin; i < end; ++i) {
                                 const T* const row = from + i / g.rows.resized * g.OriginalElements() +
                                                      rows[i % g.rows.resized] * g.OriginalRowElements();
                                 for (const int64_t x : columns)
                                   pixel = std::copy_n(row + x * g.channels, g.channels, pixel);
                               }
                             });
  }

 private:
  const ResizeAttrs attrs_;
};

// Inputs: gradients, the size of the original images.
template <typename T>
class ResizeNearestNeighborGrad final : public Kernel {
 public:
  explicit ResizeNearestNeighborGrad(const KernelConstruction& construction) : attrs_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& gradients = context.input(0).shape();
    if (gradients.rank() != 4) {
      return absl::InvalidArgumentError(
          absl::StrCat("input must be 4-dimensional, is ", gradients.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const SizePair size, ReadSize(context.input(1)));
    if (size.height <= 0 || size.width <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape_t's elements must be positive, are [", size.height, ",", size.width, "]"));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::FromDims({gradients.dim(0), size.height, size.width, gradients.dim(3)}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const absl::Span<T> to = output->flat<T>();
    std::fill(to.begin(), to.end(), T(0));
    if (gradients.num_elements() == 0 || to.empty()) return absl::OkStatus();
    const auto axis = [&](int64_t original, int64_t resized) {
      return ResizedAxis{original, resized, attrs_.Scale(original, resized)};
    };
    WEIR_ASSIGN_OR_RETURN(const Scratch<int64_t> rows,
                          Sources(context, axis(size.height, gradients.dim(1)), attrs_));
    WEIR_ASSIGN_OR_RETURN(const Scratch<int64_t> columns,
                          Sources(context, axis(size.width, gradients.dim(2)), attrs_));
    const int64_t channels = gradients.dim(3), image = size.height * size.width * channels;
    const int64_t per_image = gradients.num_elements() / gradients.dim(0);
    const T* const from = context.input(0).flat<T>().data();
    return ParallelForInTime(context, gradients.dim(0), 2.0 * static_cast<double>(per_image),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 const T* gradient = from + i * per_image;
                                 for (const int64_t y : rows) {
                                   for (const int64_t x : columns) {
                                     T* const sum = to.data() + i * image + (y * size.width + x) * channels;
                                     for (int64_t k = 0; k < channels; ++k)
                                       sum[k] = static_cast<T>(sum[k] + *gradient++);
                                   }
                                 }
                               }
                             });
  }

 private:
  const ResizeAttrs attrs_;
};

}  // namespace

void RegisterNearestNeighborKernels(DeviceKernels& kernels) {
  kernels.Add<ResizeNearestNeighbor>("ResizeNearestNeighbor", PixelTypes());
  kernels.Add<ResizeNearestNeighborGrad>("ResizeNearestNeighborGrad",
                                         Types<uint8_t, int8_t, int32_t, Half, float, double, Bfloat16>("T"));
}

}  // namespace weir
