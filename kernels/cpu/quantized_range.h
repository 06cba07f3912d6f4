// What quantized numbers stand for: integers that divide a range [min, max] of real numbers into levels.
//
// Formulas and their precision are TensorFlow's (quantized results have no tolerance: one level is one
// level). There are two of them, which do not agree to the last bit: ones for single numbers compute in
// doubles (Dequantized, Quantized), ones for arrays in floats (FromLevels, ToLevels).
//
// T is the integer that a quantized dtype is stored as (StoredAs). Pure functions; ranges
// may be hostile (NaN, infinite, reversed) and give some number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/kernel.h"

namespace weir::quantized {

struct Range {
  float min = 0, max = 0;
};

template <typename T>
inline constexpr int64_t kLowest = std::numeric_limits<T>::lowest();
template <typename T>
inline constexpr int64_t kHighest = std::numeric_limits<T>::max();
template <typename T>
inline constexpr int64_t kNumLevels = kHighest<T> - kLowest<T> + 1;

// Conversions of numbers that may not fit: what x86 gives for them, the lowest number.
inline int64_t ToInt64(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}
inline int32_t ToInt32(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? static_cast<int32_t>(x) : std::numeric_limits<int32_t>::min();
}

// The width of one level.
template <typename T>
float LevelWidth(Range range) {
  return (range.max - range.min) / static_cast<float>(kNumLevels<T> - 1);
}

// The number that a level stands for.
template <typename T>
float Dequantized(T level, Range range) {
  if (range.min == range.max) return range.min;
  constexpr double kSteps = static_cast<double>(kNumLevels<T>);
  const double width = (range.max - range.min) * (kSteps / (kSteps - 1.0)) / kSteps;
  const double first = std::round(range.min / static_cast<float>(width)) * static_cast<float>(width);
  return static_cast<float>(first + static_cast<double>(static_cast<int64_t>(level) - kLowest<T>) * width);
}

// The level that is nearest to a number, also where T does not have it.
template <typename T>
int64_t QuantizedUnclamped(float x, Range range) {
  if (range.min == range.max) return kLowest<T>;
  constexpr double kSteps = static_cast<double>(kNumLevels<T>);
  const double scale = kSteps / ((range.max - range.min) * (kSteps / (kSteps - 1.0)));
  const int64_t level = ToInt64(std::round(x * scale) - std::round(range.min * scale));
  return static_cast<int64_t>(static_cast<uint64_t>(level) + static_cast<uint64_t>(kLowest<T>));
}
template <typename T>
T Quantized(float x, Range range) {
  return static_cast<T>(std::clamp(QuantizedUnclamped<T>(x, range), kLowest<T>, kHighest<T>));
}

// The numbers of an array's levels.
template <typename T>
class FromLevels {
 public:
  explicit FromLevels(Range range)
      : width_((range.max - range.min) / (static_cast<double>(kNumLevels<T>) - 1.0)) {
    const float first = range.min == range.max ? range.min : std::round(range.min / width_) * width_;
    of_zero_ = first - static_cast<float>(kLowest<T>) * width_;
  }
  float operator()(T level) const { return of_zero_ + static_cast<float>(level) * width_; }

 private:
  float width_, of_zero_;
};

// The levels of an array's numbers.
template <typename T>
class ToLevels {
 public:
  explicit ToLevels(Range range)
      : scale_(range.max == range.min ? 0.0f
                                      : static_cast<float>((static_cast<double>(kNumLevels<T>) - 1.0) /
                                                           (range.max - range.min))),
        offset_(std::round(range.min * scale_) - static_cast<float>(kLowest<T>)) {}
  T operator()(float x) const {
    // The largest float below 2^31 stands for the highest int32.
    constexpr float kLeast = static_cast<float>(kLowest<T>);
    constexpr float kMost = sizeof(T) == 4 ? 0x1.fffffep30f : static_cast<float>(kHighest<T>);
    return static_cast<T>(ToInt32(std::min(std::max(std::round(x * scale_) - offset_, kLeast), kMost)));
  }

 private:
  float scale_, offset_;
};

// The range of an int32 that is a product of a level of A and one of B, or a sum of such.
template <typename A, typename B>
Range ProductRange(Range a, Range b) {
  const float width = LevelWidth<A>(a) * LevelWidth<B>(b);
  return {width * static_cast<float>(kLowest<int32_t>), width * static_cast<float>(kHighest<int32_t>)};
}

// The range of an int32 that is a sum of numbers of both: symmetric, so that 0 + 0 = 0, and 2^bits times as
// wide as the larger one, so that sums of sums fit.
inline Range SumRange(Range a, Range b, int bits) {
  const float most =
      std::max(a.max, std::max(-a.min, std::max(b.max, -b.min))) * static_cast<float>(1 << bits);
  return {-most, most};
}

// Calls f(TypeTag<T>()) with what a quantized dtype is stored as. Precondition: it is one.
template <typename F>
void WithLevels(DType dtype, F&& f) {
  switch (StoredAs(dtype)) {
    case DType::kInt8:
      return f(TypeTag<int8_t>());
    case DType::kUint8:
      return f(TypeTag<uint8_t>());
    case DType::kInt16:
      return f(TypeTag<int16_t>());
    case DType::kUint16:
      return f(TypeTag<uint16_t>());
    default:
      return f(TypeTag<int32_t>());
  }
}

// The number that input `index` is. InvalidArgument, with its name, when it is not one.
inline absl::StatusOr<float> ScalarInput(const KernelContext& context, int index, absl::string_view name) {
  const Tensor& input = context.input(index);
  if (input.num_elements() == 1) return input.scalar<float>();
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "` must be rank 0 but is rank ", input.shape().rank()));
}

// The range whose ends are the inputs `index` and the one after it.
inline absl::StatusOr<Range> RangeInput(const KernelContext& context, int index, absl::string_view name) {
  const absl::StatusOr<float> min = ScalarInput(context, index, absl::StrCat("min_", name));
  if (!min.ok()) return min.status();
  const absl::StatusOr<float> max = ScalarInput(context, index + 1, absl::StrCat("max_", name));
  if (!max.ok()) return max.status();
  return Range{*min, *max};
}

// Outputs 1 and 2.
inline void SetRangeOutputs(KernelContext& context, Range range) {
  context.set_output(1, Tensor::Scalar(range.min));
  context.set_output(2, Tensor::Scalar(range.max));
}

}  // namespace weir::quantized
