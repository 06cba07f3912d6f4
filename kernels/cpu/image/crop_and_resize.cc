// CropAndResize and its gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/image/crop_samples.h"
#include "kernels/cpu/image/image_types.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr double kElementCost = 4;  // nanoseconds on one core

// Boxes [n, 4] of y1, x1, y2, x2, and the image of each. Borrows the tensors.
class Boxes {
 public:
  // InvalidArgument for other shapes and for corners that are no numbers; OutOfRange for an image that the
  // batch has not.
  static absl::StatusOr<Boxes> Read(const Tensor& corners, const Tensor& images, int64_t batch) {
    if (corners.shape().rank() != 2) {
      return InvalidArgumentError(StrCat("boxes must be 2-D, got: ", corners.shape().ToString()));
    }
    if (images.shape().rank() != 1) {
      return InvalidArgumentError(
          StrCat("box_indices must be rank 1 but is shape ", images.shape().ToString()));
    }
    if (corners.shape().dim(1) != 4 && corners.num_elements() + images.num_elements() > 0) {
      return InvalidArgumentError(StrCat("boxes must have 4 columns, is ", corners.shape().ToString()));
    }
    const int64_t count = corners.num_elements() / 4;
    if (images.shape().dim(0) != count) {
      return InvalidArgumentError(StrCat("box_index has incompatible shape: ", images.shape().ToString(),
                                         " for boxes ", corners.shape().ToString()));
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t image = images.flat<int32_t>()[i];
      if (image >= 0 && image < batch) continue;
      const std::string message =
          StrCat("box_index has values outside [0, batch_size): ", image, " of a batch of ", batch);
      return batch == 0 ? InvalidArgumentError(message) : absl::OutOfRangeError(message);
    }
    for (const float corner : corners.flat<float>()) {
      if (!std::isfinite(corner)) {
        return InvalidArgumentError("Boxes contains at least one element that is not finite");
      }
    }
    return Boxes(corners.flat<float>(), images.flat<int32_t>());
  }

  int64_t size() const { return static_cast<int64_t>(images_.size()); }
  int64_t image(int64_t i) const { return images_[i]; }
  CropAxis rows(int64_t i, int64_t image, int64_t crop) const {
    return {image, crop, corners_[4 * i], corners_[4 * i + 2]};
  }
  CropAxis columns(int64_t i, int64_t image, int64_t crop) const {
    return {image, crop, corners_[4 * i + 1], corners_[4 * i + 3]};
  }

 private:
  Boxes(absl::Span<const float> corners, absl::Span<const int32_t> images)
      : corners_(corners), images_(images) {}

  absl::Span<const float> corners_;
  absl::Span<const int32_t> images_;
};

absl::Status CheckImages(const Shape& images, absl::string_view name) {
  if (images.rank() != 4) return InvalidArgumentError(StrCat(name, " must be 4-D, is ", images.ToString()));
  const bool has_pixels = images.dim(1) > 0 && images.dim(2) > 0;
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (has_pixels && images.dim(1) <= most && images.dim(2) <= most) return absl::OkStatus();
  return InvalidArgumentError(
      StrCat("image dimensions must be positive and fit into int32, ", name, " is ", images.ToString()));
}

// Calls visit(y, x, row position, column position) for the pixels of a crop that lie inside of the image, and
// outside(y, x) for the others. The rest of a crop is left out when the step is over.
template <typename Visit, typename Outside>
void ForEachPixel(const TimelyThreads& threads, const CropAxis& rows, const CropAxis& columns,
                  const Visit& visit, const Outside& outside) {
  for (int64_t y = 0; y < rows.crop && !threads.is_over(); ++y) {
    const float row = rows.Position(y);
    for (int64_t x = 0; x < columns.crop; ++x) {
      const float column = columns.Position(x);
      if (rows.Contains(row) && columns.Contains(column)) {
        visit(y, x, row, column);
      } else {
        outside(y, x);
      }
    }
  }
}

template <typename T>
class CropAndResize final : public Kernel {
 public:
  explicit CropAndResize(const KernelConstruction& construction)
      : is_nearest_(construction.attr<std::string>("method") == "nearest"),
        outside_(construction.attr<float>("extrapolation_value")) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& images = context.input(0).shape();
    WEIR_RETURN_IF_ERROR(CheckImages(images, "input image"));
    WEIR_ASSIGN_OR_RETURN(const Boxes boxes, Boxes::Read(context.input(1), context.input(2), images.dim(0)));
    const Tensor& size = context.input(3);
    if (size.shape() != Shape({2})) {
      return InvalidArgumentError(
          StrCat("crop_size must be 1-D and have two elements, is ", size.shape().ToString()));
    }
    const int64_t height = IntegerAt(size, 0), width = IntegerAt(size, 1), channels = images.dim(3);
    if (height <= 0 || width <= 0) {
      return InvalidArgumentError(StrCat("crop dimensions must be positive, are [", height, ",", width, "]"));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({boxes.size(), height, width, channels}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const from = context.input(0).flat<T>().data();
    float* const to = output->flat<float>().data();
    const int64_t image_elements = images.dim(1) * images.dim(2) * channels;
    const int64_t crop_elements = height * width * channels;
    return ParallelForInTime(context, boxes.size(), kElementCost * static_cast<double>(crop_elements),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 Crop(context, boxes.rows(i, images.dim(1), height),
                                      boxes.columns(i, images.dim(2), width), channels,
                                      from + boxes.image(i) * image_elements, to + i * crop_elements);
                               }
                             });
  }

 private:
  void Crop(const TimelyThreads& threads, const CropAxis& rows, const CropAxis& columns, int64_t channels,
            const T* image, float* to) const {
    const auto pixel = [&](int64_t y, int64_t x) { return image + (y * columns.image + x) * channels; };
    ForEachPixel(
        threads, rows, columns,
        [&](int64_t, int64_t, float row, float column) {
          if (is_nearest_) {
            const T* const source = pixel(rows.Nearest(row), columns.Nearest(column));
            for (int64_t k = 0; k < channels; ++k) *to++ = static_cast<float>(source[k]);
            return;
          }
          const CropPixels y(rows, row), x(columns, column);
          const T *const a = pixel(y.lower, x.lower), *const b = pixel(y.lower, x.upper);
          const T *const c = pixel(y.upper, x.lower), *const d = pixel(y.upper, x.upper);
          for (int64_t k = 0; k < channels; ++k) {
            const auto left = static_cast<float>(a[k]), below = static_cast<float>(c[k]);
            const float top = left + (static_cast<float>(b[k]) - left) * x.fraction;
            const float bottom = below + (static_cast<float>(d[k]) - below) * x.fraction;
            *to++ = top + (bottom - top) * y.fraction;
          }
        },
        [&](int64_t, int64_t) { to = std::fill_n(to, channels, outside_); });
  }

  const bool is_nearest_;
  const float outside_;
};

absl::Status CheckGradients(const Shape& gradients) {
  if (gradients.rank() != 4) {
    return InvalidArgumentError(StrCat("grads image must be 4-D, is ", gradients.ToString()));
  }
  if (gradients.dim(1) > 0 && gradients.dim(2) > 0) return absl::OkStatus();
  return InvalidArgumentError(StrCat("grads dimensions must be positive, are ", gradients.ToString()));
}

absl::Status CheckCount(const Shape& gradients, const Boxes& boxes) {
  if (gradients.dim(0) == boxes.size()) return absl::OkStatus();
  return InvalidArgumentError(StrCat("boxes and grads have incompatible shape: ", boxes.size(),
                                     " boxes, grads ", gradients.ToString()));
}

// Inputs: gradients, boxes, images of the boxes, the shape of the images. Crops may share pixels, so they are
// added by one thread in their order.
template <typename T>
class CropAndResizeGradImage final : public Kernel {
 public:
  explicit CropAndResizeGradImage(const KernelConstruction& construction)
      : is_nearest_(construction.attr<std::string>("method") == "nearest") {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& gradients = context.input(0).shape();
    WEIR_RETURN_IF_ERROR(CheckGradients(gradients));
    const Tensor& size = context.input(3);
    if (size.shape() != Shape({4})) {
      return InvalidArgumentError(
          StrCat("image_size must be 1-D and have 4 elements, is ", size.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape images, ReadShape(size, "image_size"));
    WEIR_RETURN_IF_ERROR(CheckImages(images, "image_size"));
    WEIR_ASSIGN_OR_RETURN(const Boxes boxes, Boxes::Read(context.input(1), context.input(2), images.dim(0)));
    WEIR_RETURN_IF_ERROR(CheckCount(gradients, boxes));
    if (gradients.dim(3) != images.dim(3)) {
      return InvalidArgumentError(StrCat("image_size and grads are incompatible: ", images.ToString(),
                                         " and ", gradients.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, images));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor sums, WideOutput(context, *output));
    const absl::Span<Wide> to = sums.flat<Wide>();
    std::fill(to.begin(), to.end(), Wide(0));
    const float* from = context.input(0).flat<float>().data();
    const int64_t image_elements = images.dim(1) * images.dim(2) * images.dim(3);
    for (int64_t i = 0; i < boxes.size(); ++i) {
      Add(context, boxes.rows(i, images.dim(1), gradients.dim(1)),
          boxes.columns(i, images.dim(2), gradients.dim(2)), images.dim(3), from,
          to.data() + boxes.image(i) * image_elements);
      from += gradients.dim(1) * gradients.dim(2) * gradients.dim(3);
    }
    WEIR_RETURN_IF_ERROR(TimelyThreads(context).status());
    Narrow(context, sums, output);
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;

  void Add(const TimelyThreads& threads, const CropAxis& rows, const CropAxis& columns, int64_t channels,
           const float* gradient, Wide* image) const {
    const auto pixel = [&](int64_t y, int64_t x) { return image + (y * columns.image + x) * channels; };
    ForEachPixel(
        threads, rows, columns,
        [&](int64_t, int64_t, float row, float column) {
          if (is_nearest_) {
            Wide* const target = pixel(rows.Nearest(row), columns.Nearest(column));
            for (int64_t k = 0; k < channels; ++k) target[k] += static_cast<Wide>(*gradient++);
            return;
          }
          const CropPixels y(rows, row), x(columns, column);
          Wide *const a = pixel(y.lower, x.lower), *const b = pixel(y.lower, x.upper);
          Wide *const c = pixel(y.upper, x.lower), *const d = pixel(y.upper, x.upper);
          for (int64_t k = 0; k < channels; ++k) {
            const float top = (1 - y.fraction) * *gradient, bottom = y.fraction * *gradient;
            ++gradient;
            a[k] += static_cast<Wide>((1 - x.fraction) * top);
            b[k] += static_cast<Wide>(x.fraction * top);
            c[k] += static_cast<Wide>((1 - x.fraction) * bottom);
            d[k] += static_cast<Wide>(x.fraction * bottom);
          }
        },
        [&](int64_t, int64_t) { gradient += channels; });
  }

  const bool is_nearest_;
};

// Inputs: gradients, images, boxes, images of the boxes.
template <typename T>
class CropAndResizeGradBoxes final : public Kernel {
 public:
  explicit CropAndResizeGradBoxes(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape &gradients = context.input(0).shape(), &images = context.input(1).shape();
    WEIR_RETURN_IF_ERROR(CheckGradients(gradients));
    WEIR_RETURN_IF_ERROR(CheckImages(images, "input image"));
    if (images.dim(3) != gradients.dim(3)) {
      return InvalidArgumentError(
          StrCat("image, grads depth differ: ", images.ToString(), " and ", gradients.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const Boxes boxes, Boxes::Read(context.input(2), context.input(3), images.dim(0)));
    WEIR_RETURN_IF_ERROR(CheckCount(gradients, boxes));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({boxes.size(), 4})));
    if (context.input(0).num_elements() == 0) {  // pixels without channels may be any number
      std::fill(output->flat<float>().begin(), output->flat<float>().end(), 0.0f);
      return absl::OkStatus();
    }
    const T* const from = context.input(1).flat<T>().data();
    const float* const flowing = context.input(0).flat<float>().data();
    float* const to = output->flat<float>().data();
    const int64_t crop_elements = gradients.dim(1) * gradients.dim(2) * gradients.dim(3);
    const int64_t image_elements = images.dim(1) * images.dim(2) * images.dim(3);
    return ParallelForInTime(context, boxes.size(), kElementCost * static_cast<double>(crop_elements),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 Sum(context, boxes.rows(i, images.dim(1), gradients.dim(1)),
                                     boxes.columns(i, images.dim(2), gradients.dim(2)), images.dim(3),
                                     flowing + i * crop_elements, from + boxes.image(i) * image_elements,
                                     to + 4 * i);
                               }
                             });
  }

 private:
  // d position / d begin and d position / d end of pixel i of an axis.
  struct Slopes {
    float begin, end;
    Slopes(const CropAxis& axis, int64_t i) {
      const auto last = static_cast<float>(axis.image - 1);
      if (axis.crop > 1) {
        end = static_cast<float>(i) * (last / static_cast<float>(axis.crop - 1));
        begin = last - end;
      } else {
        begin = end = 0.5f * last;
      }
    }
  };

  static void Sum(const TimelyThreads& threads, const CropAxis& rows, const CropAxis& columns,
                  int64_t channels, const float* gradient, const T* image, float* to) {
    std::fill_n(to, 4, 0.0f);
    const auto pixel = [&](int64_t y, int64_t x) { return image + (y * columns.image + x) * channels; };
    ForEachPixel(
        threads, rows, columns,
        [&](int64_t i, int64_t j, float row, float column) {
          const CropPixels y(rows, row), x(columns, column);
          const T *const pa = pixel(y.lower, x.lower), *const pb = pixel(y.lower, x.upper);
          const T *const pc = pixel(y.upper, x.lower), *const pd = pixel(y.upper, x.upper);
          const Slopes down(rows, i), right(columns, j);
          for (int64_t k = 0; k < channels; ++k) {
            const auto a = static_cast<float>(pa[k]), b = static_cast<float>(pb[k]);
            const auto c = static_cast<float>(pc[k]), d = static_cast<float>(pd[k]);
            const float flowing = *gradient++;
            const float dy = ((1 - x.fraction) * (c - a) + x.fraction * (d - b)) * flowing;
            const float dx = ((1 - y.fraction) * (b - a) + y.fraction * (d - c)) * flowing;
            to[0] += dy * down.begin;
            to[1] += dx * right.begin;
            to[2] += dy * down.end;
            to[3] += dx * right.end;
          }
        },
        [&](int64_t, int64_t) { gradient += channels; });
  }
};

}  // namespace

void RegisterCropAndResizeKernels(DeviceKernels& kernels) {
  kernels.Add<CropAndResize>("CropAndResize", CroppedTypes());
  kernels.Add<CropAndResizeGradImage>("CropAndResizeGradImage", Types<float, double, Half>("T"));
  kernels.Add<CropAndResizeGradBoxes>("CropAndResizeGradBoxes", CroppedTypes());
}

}  // namespace weir
