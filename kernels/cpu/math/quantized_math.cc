// Sums and products of quantized numbers, and other ranges for their results.
//
// The result of arithmetic is an int32 of a wide range. RequantizationRange finds the part of the range that
// is used, Requantize gives the levels of a narrower one. Every result is TensorFlow's, level by level.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/quantized_range.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using quantized::kHighest;
using quantized::kLowest;
using quantized::Range;

constexpr double kCost = 2;  // nanoseconds per element on one core

// --- sums and products ---

// output = f(x, y) with broadcasting.
template <typename F>
absl::Status EachPair(KernelContext& context, const F& f) {
  const Tensor &x = context.input(0), &y = context.input(1);
  const Shape* const shapes[] = {&x.shape(), &y.shape()};
  WEIR_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(shapes));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  const BroadcastLoops loops = MakeBroadcastLoops(shape, shapes);
  const int64_t columns = loops.inner_size(), dx = loops.strides[0].back(), dy = loops.strides[1].back();
  int32_t* const to = output->flat<int32_t>().data();
  const double cost = kCost * static_cast<double>(columns);
  context.threads().ParallelFor(loops.num_rows(), cost, [&](int64_t begin, int64_t end) {
    ForEachRow(loops, 2, begin, end, [&](int64_t row, const int64_t* offsets) {
      const uint8_t* const a = x.flat<uint8_t>().data() + offsets[0];
      const uint8_t* const b = y.flat<uint8_t>().data() + offsets[1];
      for (int64_t i = 0; i < columns; ++i) to[row * columns + i] = f(a[i * dx], b[i * dy]);
    });
  });
  return absl::OkStatus();
}

int32_t WrappingSum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
int32_t WrappingProduct(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

// The range whose ends are the inputs `index` and the one after it. InvalidArgument when it is empty.
absl::StatusOr<Range> WideRange(const KernelContext& context, int index, absl::string_view name) {
  WEIR_ASSIGN_OR_RETURN(const Range range, quantized::RangeInput(context, index, name));
  if (range.max > range.min) return range;
  return absl::InvalidArgumentError(absl::StrCat("max_", name, " must be larger than min_", name,
                                                 "; they are ", range.max, " and ", range.min));
}

// What each of the 256 levels is in the range of a sum. TensorFlow rounds a scalar's, and counts up those of
// other tensors from the first two, which is some levels of 2^32 off.
std::array<int32_t, 256> LevelsOfSum(Range range, Range sum, bool is_scalar) {
  std::array<int32_t, 256> levels;
  for (int i = 0; i < 256; ++i)
    levels[i] = quantized::Quantized<int32_t>(quantized::Dequantized(static_cast<uint8_t>(i), range), sum);
  const int32_t step = WrappingSum(levels[1], WrappingProduct(levels[0], -1));
  for (int i = 2; i < 256 && !is_scalar; ++i) levels[i] = WrappingSum(levels[i - 1], step);
  return levels;
}

absl::Status QuantizedAdd(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Range x, WideRange(context, 2, "x"));
  WEIR_ASSIGN_OR_RETURN(const Range y, WideRange(context, 4, "y"));
  const Range sum = quantized::SumRange(x, y, 14);
  // Of two single numbers, TensorFlow takes the first for the scalar.
  const bool x_is_scalar = context.input(0).num_elements() == 1;
  const bool y_is_scalar = !x_is_scalar && context.input(1).num_elements() == 1;
  const std::array<int32_t, 256> of_x = LevelsOfSum(x, sum, x_is_scalar);
  const std::array<int32_t, 256> of_y = LevelsOfSum(y, sum, y_is_scalar);
  WEIR_RETURN_IF_ERROR(
      EachPair(context, [&](uint8_t a, uint8_t b) { return WrappingSum(of_x[a], of_y[b]); }));
  quantized::SetRangeOutputs(context, sum);
  return absl::OkStatus();
}

// The level of zero.
int32_t ZeroOf(Range range) {
  return static_cast<int32_t>(quantized::QuantizedUnclamped<uint8_t>(0.0f, range));
}

absl::Status QuantizedMul(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Range x, WideRange(context, 2, "x"));
  WEIR_ASSIGN_OR_RETURN(const Range y, WideRange(context, 4, "y"));
  const int32_t zero_x = ZeroOf(x), zero_y = ZeroOf(y);
  WEIR_RETURN_IF_ERROR(EachPair(context, [&](uint8_t a, uint8_t b) {
    return WrappingProduct(WrappingSum(a, WrappingProduct(zero_x, -1)),
                           WrappingSum(b, WrappingProduct(zero_y, -1)));
  }));
  quantized::SetRangeOutputs(context, quantized::ProductRange<uint8_t, uint8_t>(x, y));
  return absl::OkStatus();
}

class QuantizedMatMul final : public Kernel {
 public:
  explicit QuantizedMatMul(const KernelConstruction& construction)
      : transpose_a_(construction.attr<bool>("transpose_a")),
        transpose_b_(construction.attr<bool>("transpose_b")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &a = context.input(0), &b = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Range range_a, WideRange(context, 2, "a"));
    WEIR_ASSIGN_OR_RETURN(const Range range_b, WideRange(context, 4, "b"));
    if (a.shape().rank() != 2 || b.shape().rank() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("a and b must be matrices, are ", a.shape().ToString(),
                                                     " and ", b.shape().ToString()));
    }
    const int64_t inner = a.shape().dim(transpose_a_ ? 0 : 1);
    if (inner != b.shape().dim(transpose_b_ ? 1 : 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Matrix size-incompatible: In[0]: ", a.shape().ToString(), ", In[1]: ", b.shape().ToString()));
    }
    const int64_t rows = a.shape().dim(transpose_a_ ? 1 : 0), columns = b.shape().dim(transpose_b_ ? 0 : 1);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({rows, columns}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    int32_t* const to = output->flat<int32_t>().data();
    const uint8_t *const from_a = a.flat<uint8_t>().data(), *const from_b = b.flat<uint8_t>().data();
    const auto zero_a = static_cast<uint32_t>(ZeroOf(range_a)),
               zero_b = static_cast<uint32_t>(ZeroOf(range_b));
    const int64_t step_a = transpose_a_ ? rows : 1, step_b = transpose_b_ ? 1 : columns;
    WEIR_RETURN_IF_ERROR(ParallelForInTime(
        context, rows * columns, 1.0 * static_cast<double>(inner), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / columns, column = i % columns;
            const uint8_t* x = from_a + row * (transpose_a_ ? 1 : inner);
            const uint8_t* y = from_b + column * (transpose_b_ ? inner : 1);
            uint32_t sum = 0;
            for (int64_t k = 0; k < inner; ++k, x += step_a, y += step_b)
              sum += (*x - zero_a) * (*y - zero_b);
            to[i] = static_cast<int32_t>(sum);
          }
        }));
    quantized::SetRangeOutputs(context, quantized::ProductRange<uint8_t, uint8_t>(range_a, range_b));
    return absl::OkStatus();
  }

 private:
  const bool transpose_a_, transpose_b_;
};

// --- other ranges ---

// The least and the largest number that input 0 holds; at most 0 and whatever it is.
Range UsedRange(const Tensor& input, Range range) {
  int32_t least = std::numeric_limits<int32_t>::max(), most = std::numeric_limits<int32_t>::lowest();
  for (const int32_t level : input.flat<int32_t>()) {
    least = std::min(least, level);
    most = std::max(most, level);
  }
  return {std::min(0.0f, quantized::Dequantized(least, range)), quantized::Dequantized(most, range)};
}

// The levels of int32 numbers in an uint8 range, in fixed point: 16 bits behind the point.
class ToBytes {
 public:
  ToBytes(Range from, Range to) {
    constexpr int kOne = 1 << 16;
    const float width = from.max - from.min, new_width = to.max - to.min;
    const float per_number = new_width == 0.0f ? 0.0f : static_cast<float>(255.0 / new_width);
    const float middle = static_cast<float>((from.min + from.max) / 2.0);
    scale_ = new_width == 0.0f ? 0 : quantized::ToInt64(255.0 * kOne * width / new_width);
    const int64_t offset = quantized::ToInt64(middle * per_number * kOne);
    const int64_t new_offset =
        new_width == 0.0f ? 0 : quantized::ToInt64(kOne * (to.min * 255.0) / new_width);
    // Wraps where a hostile range makes it, rather than overflowing.
    offset_ =
        static_cast<int64_t>(static_cast<uint64_t>(offset) - static_cast<uint64_t>(new_offset) + kOne / 2);
  }
  uint8_t operator()(int32_t level) const {
    const auto scaled =
        static_cast<int64_t>(static_cast<uint64_t>(level) * static_cast<uint64_t>(scale_)) >> 32;
    const int64_t sum = static_cast<int64_t>(static_cast<uint64_t>(scaled) + static_cast<uint64_t>(offset_));
    return static_cast<uint8_t>(std::clamp<int64_t>(sum >> 16, 0, 255));
  }

 private:
  int64_t scale_ = 0, offset_ = 0;
};

template <typename F, typename To>
void EachLevel(KernelContext& context, To* to, const F& f) {
  const int32_t* const from = context.input(0).flat<int32_t>().data();
  context.threads().ParallelFor(context.input(0).num_elements(), kCost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
  });
}

absl::Status RequantizeTo(KernelContext& context, Range from, Range to) {
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, context.input(0).shape()));
  if (output->dtype() == DType::kQuint8) {
    EachLevel(context, output->flat<uint8_t>().data(), ToBytes(from, to));
  } else {
    const quantized::FromLevels<int32_t> number(from);
    const quantized::ToLevels<int8_t> level(to);
    EachLevel(context, output->flat<int8_t>().data(), [&](int32_t x) { return level(number(x)); });
  }
  quantized::SetRangeOutputs(context, to);
  return absl::OkStatus();
}

absl::Status Requantize(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Range from, quantized::RangeInput(context, 1, "input"));
  WEIR_ASSIGN_OR_RETURN(const Range to, quantized::RangeInput(context, 3, "requested_output"));
  if (!(to.min <= 0.0f)) {
    return absl::InvalidArgumentError(absl::StrCat("requested_output_min must be <= 0, but got ", to.min));
  }
  if (!(to.max >= to.min)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "requested_output_max must be >= requested_output_min, but got ", to.max, " and ", to.min));
  }
  return RequantizeTo(context, from, to);
}

absl::Status QuantizeDownAndShrinkRange(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Range from, quantized::RangeInput(context, 1, "input"));
  return RequantizeTo(context, from, UsedRange(context.input(0), from));
}

absl::Status RequantizationRange(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Range range, quantized::RangeInput(context, 1, "input"));
  const Range used = UsedRange(context.input(0), range);
  context.set_output(0, Tensor::Scalar(used.min));
  context.set_output(1, Tensor::Scalar(used.max));
  return absl::OkStatus();
}

// --- one range for each channel ---

// Inputs 1 and 2 are the ends of the ranges of the channels of input 0. Of each channel, the number that is
// the farthest from zero.
absl::StatusOr<std::vector<float>> FarthestOfChannels(const KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  if (shape.rank() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("input must be in NHWC format, with 4 dimensions, is ", shape.ToString()));
  }
  for (const int end : {1, 2}) {
    if (context.input(end).shape() == Shape({shape.dim(3)})) continue;
    return absl::InvalidArgumentError(absl::StrCat(end == 1 ? "input_min" : "input_max",
                                                   " must have an element for each of the ", shape.dim(3),
                                                   " channels, is ", context.input(end).shape().ToString()));
  }
  std::vector<float> farthest;
  for (int64_t c = 0; c < shape.dim(3); ++c) {
    farthest.push_back(
        std::max(std::fabs(context.input(1).flat<float>()[c]), std::fabs(context.input(2).flat<float>()[c])));
  }
  return farthest;
}

class RequantizationRangePerChannel final : public Kernel {
 public:
  explicit RequantizationRangePerChannel(const KernelConstruction& construction)
      : clip_value_max_(construction.attr<float>("clip_value_max")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::vector<float> farthest, FarthestOfChannels(context));
    const absl::Span<const int32_t> levels = context.input(0).flat<int32_t>();
    float most = 0;
    bool has_negative = false;
    for (size_t i = 0; i < levels.size(); ++i) {
      has_negative |= levels[i] < 0;
      most =
          std::max(most, farthest[i % farthest.size()] * std::fabs(static_cast<float>(levels[i])) / 0x1p31f);
    }
    most = std::min(most, clip_value_max_);
    context.set_output(0, Tensor::Scalar(has_negative ? -most : 0.0f));
    context.set_output(1, Tensor::Scalar(most));
    return absl::OkStatus();
  }

 private:
  const float clip_value_max_;
};

absl::Status RequantizePerChannel(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<float> farthest, FarthestOfChannels(context));
  WEIR_ASSIGN_OR_RETURN(const Range to, quantized::RangeInput(context, 3, "requested_output"));
  const bool is_signed = context.output_type(0) == DType::kQint8;
  if (is_signed && !(to.min < 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("If out_type is QINT8, requested_output_min must be negative, got ", to.min));
  }
  const float levels = is_signed ? 127.0f : 255.0f, least = is_signed ? -128.0f : 0.0f;
  const float most = is_signed ? 127.0f : 255.0f;
  const float requested = std::max(std::fabs(to.min), std::fabs(to.max));
  std::vector<float> scales;
  for (const float number : farthest) scales.push_back(levels * number / requested / 0x1p31f);
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, context.input(0).shape()));
  const absl::Span<const int32_t> from = context.input(0).flat<int32_t>();
  uint8_t* const bytes = output->flat<uint8_t>().data();
  for (size_t i = 0; i < from.size(); ++i) {
    const float level = std::nearbyint(static_cast<float>(from[i]) * scales[i % scales.size()]);
    // The bits of a signed byte are those of the unsigned one.
    bytes[i] = static_cast<uint8_t>(quantized::ToInt32(std::min(std::max(level, least), most)));
  }
  quantized::SetRangeOutputs(context, to);
  return absl::OkStatus();
}

}  // namespace

void RegisterQuantizedMathKernels(DeviceKernels& kernels) {
  const std::vector<DType> bytes = {DType::kQuint8}, words = {DType::kQint32};
  const DeviceKernels::TypeAttrs arithmetic = {{"T1", bytes}, {"T2", bytes}, {"Toutput", words}};
  kernels.Add<&QuantizedAdd>("QuantizedAdd", arithmetic);
  kernels.Add<&QuantizedMul>("QuantizedMul", arithmetic);
  kernels.Add<QuantizedMatMul>("QuantizedMatMul", arithmetic);
  kernels.Add<&Requantize>("Requantize", {{"Tinput", words}, {"out_type", {DType::kQuint8, DType::kQint8}}});
  kernels.Add<&QuantizeDownAndShrinkRange>("QuantizeDownAndShrinkRange",
                                           {{"Tinput", words}, {"out_type", bytes}});
  kernels.Add<&RequantizationRange>("RequantizationRange", {{"Tinput", words}});
  kernels.Add<&RequantizePerChannel>("RequantizePerChannel",
                                     {{"T", words}, {"out_type", {DType::kQuint8, DType::kQint8}}});
  kernels.Add<RequantizationRangePerChannel>("RequantizationRangePerChannel", {{"T", words}});
}

}  // namespace weir
