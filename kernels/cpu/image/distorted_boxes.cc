// SampleDistortedBoundingBox, its second version and the stateless one: TensorFlow's boxes for the same
// seeds.
//
// An aspect ratio is drawn, then a height between those of the smallest and the largest area, then a place.
// What does not cover enough of any object is drawn again. Source for the order of draws and for what is
// rounded: TensorFlow's sample_distorted_bounding_box_op.cc and core/lib/random/exact_uniform_int.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// The numbers that are drawn, word by word.
class Draws {
 public:
  explicit Draws(const Philox& bits) : bits_(bits), words_(bits_) {}

  float Float() { return UniformFloat(words_.Next()); }
  // Words that would make some numbers likelier than others are thrown away.
  int64_t Below(int64_t limit) {
    const auto n = static_cast<uint32_t>(limit);
    if ((n & (n - 1)) == 0) return words_.Next() & (n - 1);
    const uint32_t surplus = std::numeric_limits<uint32_t>::max() % n + 1;
    uint32_t word = words_.Next();
    while (word < surplus) word = words_.Next();
    return word % n;
  }

 private:
  Philox bits_;
  Words words_;
};

// Pixels [left, right) x [top, bottom).
struct PixelBox {
  int64_t left = 0, top = 0, right = 0, bottom = 0;

  float area() const { return static_cast<float>((right - left) * (bottom - top)); }
  float SharedArea(const PixelBox& other) const {
    const int64_t width = std::min(right, other.right) - std::max(left, other.left);
    const int64_t height = std::min(bottom, other.bottom) - std::max(top, other.top);
    return width < 0 || height < 0 ? 0.0f : static_cast<float>(width * height);
  }
};

struct Limits {
  std::vector<float> aspect_ratios, areas;
  int64_t max_attempts = 0;
  float min_object_covered = 0;
  bool takes_whole_image = false;  // where there are no boxes

  static absl::StatusOr<Limits> Of(const KernelConstruction& construction) {
    Limits limits;
    if (const AttrValue* covered = construction.node().FindAttr("min_object_covered")) {
      limits.min_object_covered = covered->get<float>();
      WEIR_RETURN_IF_ERROR(CheckCovered(limits.min_object_covered));
    }
    limits.takes_whole_image = construction.attr<bool>("use_image_if_no_bounding_boxes");
    limits.aspect_ratios = construction.attr<std::vector<float>>("aspect_ratio_range");
    limits.areas = construction.attr<std::vector<float>>("area_range");
    limits.max_attempts = construction.attr<int64_t>("max_attempts");
    WEIR_RETURN_IF_ERROR(CheckRange("Aspect ratio range", limits.aspect_ratios));
    WEIR_RETURN_IF_ERROR(CheckRange("Area range", limits.areas));
    if (!(limits.areas[0] <= 1 && limits.areas[1] <= 1)) {
      return InvalidArgumentError(StrCat("Area range must be less then or equal to 1.0: [", limits.areas[0],
                                         ", ", limits.areas[1], "]"));
    }
    constexpr int64_t kMostAttempts = std::numeric_limits<int32_t>::max();
    if (limits.max_attempts <= 0 || limits.max_attempts > kMostAttempts) {
      return InvalidArgumentError(StrCat("Max attempts must be non-negative: ", limits.max_attempts));
    }
    return limits;
  }

  static absl::Status CheckCovered(float covered) {
    if (covered >= 0) return absl::OkStatus();
    return InvalidArgumentError(StrCat("Min object covered must be non-negative: ", covered));
  }

 private:
  static absl::Status CheckRange(absl::string_view name, const std::vector<float>& range) {
    if (range.size() != 2) {
      return InvalidArgumentError(StrCat(name, " field must specify 2 dimensions, has ", range.size()));
    }
    if (range[0] > 0 && range[1] > 0) return absl::OkStatus();
    return InvalidArgumentError(StrCat(name, " must be non-negative: [", range[0], ", ", range[1], "]"));
  }
};

// Beyond what an image has, where the product of two still fits into 64 bits.
constexpr double kFar = 3e9;
int64_t Whole(double x) {
  return x > -kFar && x < kFar ? static_cast<int64_t>(x) : static_cast<int64_t>(kFar);
}
int64_t Rounded(float x) { return Whole(std::rint(x)); }

// The tallest box of an aspect ratio that is no larger than an area and fits the image.
int64_t LargestHeight(float max_area, float aspect_ratio, int64_t width, int64_t height) {
  int64_t largest = Rounded(std::sqrt(max_area / aspect_ratio));
  if (Rounded(static_cast<float>(largest) * aspect_ratio) > width) {
    constexpr float kEpsilon = 0.0000001f;
    largest = Whole((static_cast<double>(width) + 0.5 - kEpsilon) / aspect_ratio);
    if (Rounded(static_cast<float>(largest) * aspect_ratio) > width) --largest;
  }
  return std::min(largest, height);
}

// False where roundings leave no box within the limits.
bool DrawBox(int64_t width, int64_t height, const Limits& limits, float aspect_ratio, Draws& draws,
             PixelBox* box) {
  if (!(aspect_ratio > 0) || width <= 0 || height <= 0 || limits.areas[0] > limits.areas[1]) return false;
  const float min_area = limits.areas[0] * static_cast<float>(width) * static_cast<float>(height);
  const float max_area = limits.areas[1] * static_cast<float>(width) * static_cast<float>(height);
  const int64_t largest = LargestHeight(max_area, aspect_ratio, width, height);
  int64_t rows = std::min(Rounded(std::sqrt(min_area / aspect_ratio)), largest);
  if (rows < largest) rows += draws.Below(largest - rows + 1);
  const auto columns_of = [aspect_ratio](int64_t count) {
    return Rounded(static_cast<float>(count) * aspect_ratio);
  };
  int64_t columns = columns_of(rows);
  const auto area = [&] { return static_cast<float>(columns * rows); };
  if (area() < min_area) columns = columns_of(++rows);
  if (area() > max_area) columns = columns_of(--rows);
  if (area() < min_area || area() > max_area || columns > width || rows > height || columns <= 0 ||
      rows <= 0) {
    return false;
  }
  const int64_t top = rows < height ? draws.Below(height - rows) : 0;
  const int64_t left = columns < width ? draws.Below(width - columns) : 0;
  *box = {left, top, left + columns, top + rows};
  return true;
}

bool CoversAnObject(const PixelBox& box, const std::vector<PixelBox>& objects, float min_covered) {
  if (box.area() < 1) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const PixelBox& object) {
    return object.area() >= 1 && box.SharedArea(object) / object.area() >= min_covered;
  });
}

struct ImageSize {
  int64_t height, width;

  static absl::StatusOr<ImageSize> Read(const Tensor& size) {
    if (size.shape().rank() != 1) {
      return InvalidArgumentError(StrCat("image_size must be 1-dimensional", size.shape().ToString()));
    }
    if (size.num_elements() != 3) {
      return InvalidArgumentError(StrCat("image_size must contain 3 elements", size.shape().ToString()));
    }
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const ImageSize image = {IntegerAt(size, 0), IntegerAt(size, 1)};
    if (image.height < 0 || image.height >= kMost) {
      return InvalidArgumentError(StrCat("image height cannot be >= int32 max, is ", image.height));
    }
    if (image.width < 0 || image.width >= kMost) {
      return InvalidArgumentError(StrCat("image width cannot be >= int32 max, is ", image.width));
    }
    return image;
  }
};

absl::StatusOr<std::vector<PixelBox>> ReadObjects(const Tensor& boxes, const ImageSize& image) {
  const Shape& shape = boxes.shape();
  if (shape.rank() != 3) {
    return InvalidArgumentError(
        StrCat("input boxes must be 3-dimensional [batch, num_boxes, coords]: ", shape.ToString()));
  }
  if (shape.dim(2) != 4) {
    return InvalidArgumentError(
        StrCat("bounding boxes must have shape [4] or [*, 4], got ", shape.ToString()));
  }
  std::vector<PixelBox> objects;
  const absl::Span<const float> corners = boxes.flat<float>();
  for (const float corner : corners) {
    if (corner >= 0 && corner <= 1) continue;
    return InvalidArgumentError(StrCat("All bounding box coordinates must be in [0.0, 1.0]: ", corner));
  }
  const auto at = [](float corner, int64_t size) {
    return static_cast<int64_t>(corner * static_cast<float>(size));
  };
  for (size_t i = 0; i < corners.size(); i += 4) {
    objects.push_back({at(corners[i + 1], image.width), at(corners[i], image.height),
                       at(corners[i + 3], image.width), at(corners[i + 2], image.height)});
  }
  return objects;
}

template <typename T>
absl::Status SetOutputs(KernelContext& context, const PixelBox& box, const ImageSize& image) {
  WEIR_ASSIGN_OR_RETURN(Tensor * begin, context.AllocateOutput(0, Shape({3})));
  WEIR_ASSIGN_OR_RETURN(Tensor * size, context.AllocateOutput(1, Shape({3})));
  WEIR_ASSIGN_OR_RETURN(Tensor * corners, context.AllocateOutput(2, Shape({1, 1, 4})));
  const int64_t begins[] = {box.top, box.left, 0};
  const int64_t sizes[] = {box.bottom - box.top, box.right - box.left, -1};  // -1: all channels
  for (int i = 0; i < 3; ++i) {
    begin->flat<T>()[i] = static_cast<T>(begins[i]);
    size->flat<T>()[i] = static_cast<T>(sizes[i]);
  }
  const auto part = [](int64_t at, int64_t of) { return static_cast<float>(at) / static_cast<float>(of); };
  const absl::Span<float> to = corners->flat<float>();
  to[0] = part(box.top, image.height);
  to[1] = part(box.left, image.width);
  to[2] = part(box.bottom, image.height);
  to[3] = part(box.right, image.width);
  return absl::OkStatus();
}

template <typename T>
absl::Status Sample(KernelContext& context, Limits limits, const Philox& bits) {
  WEIR_ASSIGN_OR_RETURN(const ImageSize image, ImageSize::Read(context.input(0)));
  if (context.num_inputs() > 2) {
    if (!context.input(2).shape().is_scalar()) {
      return InvalidArgumentError(
          StrCat("min_object_covered must be 0-D, got shape ", context.input(2).shape().ToString()));
    }
    limits.min_object_covered = context.input(2).scalar<float>();
    WEIR_RETURN_IF_ERROR(Limits::CheckCovered(limits.min_object_covered));
  }
  WEIR_ASSIGN_OR_RETURN(std::vector<PixelBox> objects, ReadObjects(context.input(1), image));
  const PixelBox whole = {0, 0, image.width, image.height};
  if (objects.empty()) {
    if (!limits.takes_whole_image) {
      return InvalidArgumentError(
          "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish "
          "to not provide any bounding boxes.");
    }
    objects.push_back(whole);
  }
  Draws draws(bits);
  const float range = limits.aspect_ratios[1] - limits.aspect_ratios[0];
  for (int64_t i = 0; i < limits.max_attempts && !context.cancellation().is_cancelled(); ++i) {
    const float aspect_ratio = draws.Float() * range + limits.aspect_ratios[0];
    PixelBox box;
    if (DrawBox(image.width, image.height, limits, aspect_ratio, draws, &box) &&
        CoversAnObject(box, objects, limits.min_object_covered)) {
      return SetOutputs<T>(context, box, image);
    }
  }
  return SetOutputs<T>(context, whole, image);
}

template <typename T>
class SampleDistortedBoundingBox final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(Limits limits, Limits::Of(construction));
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<SampleDistortedBoundingBox>(std::move(limits), std::move(stream));
  }
  SampleDistortedBoundingBox(Limits limits, std::shared_ptr<RandomStream> stream)
      : limits_(std::move(limits)), stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    return Sample<T>(context, limits_, stream_->ReserveBlocks(static_cast<uint64_t>(limits_.max_attempts)));
  }

 private:
  const Limits limits_;
  const std::shared_ptr<RandomStream> stream_;
};

template <typename T>
class StatelessSampleDistortedBoundingBox final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(Limits limits, Limits::Of(construction));
    return std::make_unique<StatelessSampleDistortedBoundingBox>(std::move(limits));
  }
  explicit StatelessSampleDistortedBoundingBox(Limits limits) : limits_(std::move(limits)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Philox bits, StreamOfSeed(context.input(3)));
    return Sample<T>(context, limits_, bits);
  }

 private:
  const Limits limits_;
};

}  // namespace

void RegisterDistortedBoxesKernels(DeviceKernels& kernels) {
  const auto types = Types<uint8_t, int8_t, int16_t, int32_t, int64_t>("T");
  kernels.Add<SampleDistortedBoundingBox>("SampleDistortedBoundingBox", types);
  kernels.Add<SampleDistortedBoundingBox>("SampleDistortedBoundingBoxV2", types);
  kernels.Add<StatelessSampleDistortedBoundingBox>("StatelessSampleDistortedBoundingBox", types);
}

}  // namespace weir
