// What resizes have in common: the checks of their inputs, and where a pixel of the result lies in the image.
//
// Images are [batch, height, width, channels]. Positions are counted in pixels of the image, with 0 in the
// middle of the first one. Values, safe to share between threads.
//
// Source: TensorFlow's core/util/image_resizer_state.h for the order of single-precision operations, which
// the last digits of results depend on, and for the error texts.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/kernel.h"

namespace weir {

// The pixels of an image that a resized pixel lies between along one axis.
struct Neighbors {
  int64_t lower = 0;
  int64_t upper = 0;
  float fraction = 0;  // of the way from lower to upper
};

// One axis: `original` pixels become `resized` ones.
struct ResizedAxis {
  int64_t original = 0;
  int64_t resized = 0;
  float scale = 0;  // pixels of the image that a resized one covers

  float Position(int64_t i, bool half_pixel_centers) const {
    const auto x = static_cast<float>(static_cast<int>(i));
    return half_pixel_centers ? (x + 0.5f) * scale - 0.5f : x * scale;
  }
  Neighbors Between(int64_t i, bool half_pixel_centers) const;
  int64_t Clamp(int64_t pixel) const { return pixel < 0 ? 0 : pixel < original ? pixel : original - 1; }
};

struct ResizeGeometry {
  int64_t batch = 0;
  int64_t channels = 0;
  ResizedAxis rows, columns;

  Shape ResizedShape() const { return Shape({batch, rows.resized, columns.resized, channels}); }
  Shape OriginalShape() const { return Shape({batch, rows.original, columns.original, channels}); }
  int64_t ResizedRowElements() const { return columns.resized * channels; }
  int64_t OriginalRowElements() const { return columns.original * channels; }
  int64_t OriginalElements() const { return rows.original * OriginalRowElements(); }
};

// The attrs align_corners and half_pixel_centers; an op without the latter has the former alone.
class ResizeAttrs {
 public:
  explicit ResizeAttrs(const KernelConstruction& construction);

  bool half_pixel_centers() const { return half_pixel_centers_; }
  bool align_corners() const { return align_corners_; }

  // Of inputs images, size: what the op's result is made from. InvalidArgument for other ranks, images
  // without pixels, sizes that are not positive or that int32 has not, a result that no shape has.
  absl::StatusOr<ResizeGeometry> OfImages(const KernelContext& context) const;
  // Of inputs gradients, original images.
  absl::StatusOr<ResizeGeometry> OfGradients(const KernelContext& context) const;
  float Scale(int64_t original, int64_t resized) const;

 private:
  bool align_corners_ = false;
  bool half_pixel_centers_ = false;
};

// Memory for `count` plain Ts for the time of a call, which the device counts: an axis may be as long as a
// hostile size says. ResourceExhausted when there is none.
template <typename T>
class Scratch {
 public:
  static absl::StatusOr<Scratch> Allocate(KernelContext& context, int64_t count) {
    int64_t size = 0;
    if (!MultiplyWithoutOverflow(count, static_cast<int64_t>(sizeof(T)), &size)) return TooMany(count, 1);
    auto bytes = context.AllocateTemporary(DType::kUint8, Shape({size}));
    if (!bytes.ok()) return bytes.status();
    return Scratch(*std::move(bytes), count);
  }
  static absl::StatusOr<Scratch> Allocate(KernelContext& context, int64_t rows, int64_t columns) {
    int64_t count = 0;
    if (!MultiplyWithoutOverflow(rows, columns, &count)) return TooMany(rows, columns);
    return Allocate(context, count);
  }

  T& operator[](int64_t i) { return begin()[i]; }
  const T& operator[](int64_t i) const { return begin()[i]; }
  T* begin() { return reinterpret_cast<T*>(bytes_.data()); }
  T* end() { return begin() + count_; }
  const T* begin() const { return reinterpret_cast<const T*>(bytes_.data()); }
  const T* end() const { return begin() + count_; }

 private:
  static absl::Status TooMany(int64_t rows, int64_t columns) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory holds ", rows, " x ", columns, " numbers of ", sizeof(T), " bytes"));
  }
  Scratch(Tensor bytes, int64_t count) : bytes_(std::move(bytes)), count_(count) {}

  Tensor bytes_;
  int64_t count_ = 0;
};

// A vector [2] of height and width. InvalidArgument for other shapes.
struct SizePair {
  int64_t height = 0;
  int64_t width = 0;
};
absl::StatusOr<SizePair> ReadSize(const Tensor& size);

}  // namespace weir
