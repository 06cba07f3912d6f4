// DrawBoundingBoxes and DrawBoundingBoxesV2.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// The lines that box edges lie on along one axis, and the part of them that the image has. Empty when the box
// is inverted or outside.
struct Edges {
  int64_t low, high, size;

  Edges(float begin, float end, int64_t image) : low(At(begin, image)), high(At(end, image)), size(image) {}
  bool is_drawn() const { return low <= high && low < size && high >= 0; }
  int64_t first() const { return std::max<int64_t>(low, 0); }
  int64_t last() const { return std::min(high, size - 1); }

 private:
  // Outside of the image every place is as good as another, and NaN is outside.
  static int64_t At(float position, int64_t image) {
    const float at = position * static_cast<float>(image - 1);
    const auto most = static_cast<float>(image + 1);
    if (std::isnan(at)) return image + 1;
    return static_cast<int64_t>(std::clamp(at, -most, most));
  }
};

// Colours in turn: rows of at least `depth` numbers.
struct Palette {
  absl::Span<const float> colors;
  int64_t stride;
  bool is_gray;  // all white

  float at(int64_t box, int64_t channel) const {
    if (is_gray) return 1;
    return colors[box % (static_cast<int64_t>(colors.size()) / stride) * stride + channel];
  }
};

constexpr float kColors[] = {1,    1,    0, 1, 0,    0, 1, 1, 1, 0, 0,    1, 0, 1, 0, 1, 0.5f, 0, 0.5f, 1,
                             0.5f, 0.5f, 0, 1, 0.5f, 0, 0, 1, 0, 0, 0.5f, 1, 0, 1, 1, 1, 1,    0, 1,    1};

absl::StatusOr<Palette> PaletteOf(const KernelContext& context, int64_t depth) {
  if (context.num_inputs() == 3) {
    const Tensor& colors = context.input(2);
    if (colors.shape().rank() != 2) {
      return InvalidArgumentError(StrCat("colors must be a 2-D matrix", colors.shape().ToString()));
    }
    if (colors.shape().dim(1) < depth) {
      return InvalidArgumentError(StrCat("colors must have equal or more channels than the image provided: ",
                                         colors.shape().ToString()));
    }
    if (colors.num_elements() > 0) return Palette{colors.flat<float>(), colors.shape().dim(1), false};
  }
  return Palette{kColors, 4, depth == 1};
}

absl::Status CheckShapes(const Shape& images, const Shape& boxes) {
  if (images.rank() != 4) {
    return InvalidArgumentError(StrCat("The rank of the images should be 4, is ", images.rank()));
  }
  if (boxes.rank() != 3) {
    return InvalidArgumentError(StrCat("The rank of the boxes tensor should be 3, is ", boxes.rank()));
  }
  if (images.dim(0) != boxes.dim(0)) {
    return InvalidArgumentError(
        StrCat("The batch sizes should be the same, are ", images.dim(0), " and ", boxes.dim(0)));
  }
  const int64_t depth = images.dim(3);
  if (depth != 1 && depth != 3 && depth != 4) {
    return InvalidArgumentError(
        StrCat("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), is ", depth));
  }
  if (boxes.dim(2) == 4) return absl::OkStatus();
  return InvalidArgumentError(
      StrCat("The size of the third dimension of the box must be 4. Received: ", boxes.dim(2)));
}

template <typename T>
class DrawBoundingBoxes final : public Kernel {
 public:
  explicit DrawBoundingBoxes(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& images = context.input(0);
    const Shape &shape = images.shape(), &boxes = context.input(1).shape();
    WEIR_RETURN_IF_ERROR(CheckShapes(shape, boxes));
    WEIR_ASSIGN_OR_RETURN(const Palette palette, PaletteOf(context, shape.dim(3)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const absl::Span<const T> from = images.flat<T>();
    std::copy(from.begin(), from.end(), output->flat<T>().begin());
    if (output->num_elements() == 0) return absl::OkStatus();
    const float* box = context.input(1).flat<float>().data();
    const int64_t image_elements = images.num_elements() / shape.dim(0);
    for (int64_t i = 0; i < shape.dim(0); ++i) {
      T* const image = output->flat<T>().data() + i * image_elements;
      for (int64_t k = 0; k < boxes.dim(1); ++k, box += 4) {
        if (context.cancellation().is_cancelled()) return context.cancellation().reason();
        const Edges rows(box[0], box[2], shape.dim(1)), columns(box[1], box[3], shape.dim(2));
        if (rows.is_drawn() && columns.is_drawn()) Draw(rows, columns, shape.dim(3), palette, k, image);
      }
    }
    return absl::OkStatus();
  }

 private:
  static void Draw(const Edges& rows, const Edges& columns, int64_t depth, const Palette& palette,
                   int64_t box, T* image) {
    const auto set = [&](int64_t y, int64_t x) {
      T* const pixel = image + (y * columns.size + x) * depth;
      for (int64_t c = 0; c < depth; ++c) pixel[c] = static_cast<T>(palette.at(box, c));
    };
    for (const int64_t y : {rows.low, rows.high}) {
      if (y < 0 || y >= rows.size) continue;
      for (int64_t x = columns.first(); x <= columns.last(); ++x) set(y, x);
    }
    for (const int64_t x : {columns.low, columns.high}) {
      if (x < 0 || x >= columns.size) continue;
      for (int64_t y = rows.first(); y <= rows.last(); ++y) set(y, x);
    }
  }
};

}  // namespace

void RegisterDrawnBoxesKernels(DeviceKernels& kernels) {
  kernels.Add<DrawBoundingBoxes>("DrawBoundingBoxes", Types<float, Half>("T"));
  kernels.Add<DrawBoundingBoxes>("DrawBoundingBoxesV2", Types<float, Half>("T"));
}

}  // namespace weir
