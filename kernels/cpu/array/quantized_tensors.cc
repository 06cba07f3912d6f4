// QuantizeV2, Dequantize, QuantizedConcat and QuantizedReshape.
//
// Modes and the order of operations are TensorFlow's: quantized results are equal, level by level.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/array/open_dim.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/quantized_range.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using quantized::FromLevels;
using quantized::kHighest;
using quantized::kLowest;
using quantized::Range;
using quantized::ToLevels;

constexpr double kCost = 2;  // nanoseconds per element on one core

enum class Mode { kMinCombined, kMinFirst, kScaled };

Mode ModeOf(const KernelConstruction& construction) {
  const std::string& mode = construction.attr<std::string>("mode");
  return mode == "MIN_COMBINED" ? Mode::kMinCombined : mode == "MIN_FIRST" ? Mode::kMinFirst : Mode::kScaled;
}

// Added to a signed level, it gives one that counts from 0.
template <typename T>
constexpr float kHalfOfLevels =
    std::is_signed_v<T> ? static_cast<float>((static_cast<double>(kHighest<T>) - kLowest<T> + 1) / 2) : 0.0f;

// A tensor as [before, slices, after]; each slice has a range of its own.
struct Slices {
  int64_t before = 1, count = 1, after = 1;
};

absl::StatusOr<Slices> SlicesOf(const Shape& shape, int64_t axis) {
  Slices slices;
  if (axis < 0) {
    slices.after = shape.num_elements();
    return slices;
  }
  if (axis >= shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Axis is on a zero-based index, so its value must always be less than number of input's "
                     "dims, but given "
                     "axis value was ",
                     axis, " and input's dims was ", shape.rank()));
  }
  for (int i = 0; i < shape.rank(); ++i)
    (i < axis ? slices.before : i == axis ? slices.count : slices.after) *= shape.dim(i);
  return slices;
}

// An end of the slices' ranges: one number, or one for each slice.
absl::Status CheckEnd(const Tensor& end, absl::string_view name, const Slices& slices, int64_t axis) {
  if (axis < 0 ? end.num_elements() == 1 : end.shape() == Shape({slices.count})) return absl::OkStatus();
  if (axis < 0) {
    return absl::InvalidArgumentError(absl::StrCat("If axis is not specified, ", name,
                                                   " must contain a single float element, but it contains ",
                                                   end.num_elements(), " elements"));
  }
  return absl::InvalidArgumentError(absl::StrCat("If axis is specified, ", name, " must be a 1-D tensor of ",
                                                 slices.count, " elements, the size of dimension ", axis,
                                                 ", but is ", end.shape().ToString()));
}

absl::StatusOr<Slices> CheckedSlices(KernelContext& context, int64_t axis) {
  WEIR_ASSIGN_OR_RETURN(const Slices slices, SlicesOf(context.input(0).shape(), axis));
  WEIR_RETURN_IF_ERROR(CheckEnd(context.input(1), "min_range", slices, axis));
  WEIR_RETURN_IF_ERROR(CheckEnd(context.input(2), "max_range", slices, axis));
  return slices;
}

// output[i] = f(input[i]) for the elements of one slice.
template <typename From, typename To, typename F>
void ForSlice(KernelContext& context, const Slices& slices, int64_t slice, const From* from, To* to,
              const F& f) {
  const int64_t total = slices.before * slices.after;
  if (total == 0) return;
  context.threads().ParallelFor(total, kCost, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t run = begin / slices.after, run_end = std::min(end, (run + 1) * slices.after);
      const int64_t at = (run * slices.count + slice - run) * slices.after;
      for (int64_t i = begin; i < run_end; ++i) to[at + i] = f(from[at + i]);
      begin = run_end;
    }
  });
}

// --- QuantizeV2 ---

class Quantize final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const std::string& rounding = construction.attr<std::string>("round_mode");
    if (rounding == "HALF_TO_EVEN" && ModeOf(construction) != Mode::kScaled) {
      return absl::InvalidArgumentError(
          absl::StrCat("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '",
                       construction.attr<std::string>("mode"), "'."));
    }
    return std::unique_ptr<Kernel>(new Quantize(construction));
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Slices slices, CheckedSlices(context, axis_));
    const Shape ends = axis_ < 0 ? Shape() : Shape({slices.count});
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, context.input(0).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * mins, context.AllocateOutput(1, ends));
    WEIR_ASSIGN_OR_RETURN(Tensor * maxs, context.AllocateOutput(2, ends));
    for (int64_t i = 0; i < slices.count; ++i) {
      WEIR_RETURN_IF_ERROR(context.cancellation().reason());
      WEIR_ASSIGN_OR_RETURN(Range range,
                            RangeFor(context.input(1).flat<float>()[i], context.input(2).flat<float>()[i]));
      quantized::WithLevels(output->dtype(), [&]<typename T>(TypeTag<T>) {
        range = QuantizeSlice(context, slices, i, range, output->flat<T>().data());
      });
      mins->flat<float>()[i] = range.min;
      maxs->flat<float>()[i] = range.max;
    }
    return absl::OkStatus();
  }

 private:
  explicit Quantize(const KernelConstruction& construction)
      : mode_(ModeOf(construction)),
        rounds_to_even_(construction.attr<std::string>("round_mode") == "HALF_TO_EVEN"),
        is_narrow_(construction.attr<bool>("narrow_range")),
        axis_(construction.attr<int64_t>("axis")),
        ensure_minimum_range_(construction.attr<float>("ensure_minimum_range")) {}

  // With zero in it, and as wide as asked for.
  absl::StatusOr<Range> RangeFor(float min, float max) const {
    if (max < min) {
      return absl::InvalidArgumentError(
          absl::StrCat("input_max_range must be larger than input_min_range; they are ", max, " and ", min));
    }
    const float least = std::min(0.0f, min);
    const float width = std::max(1.0f, std::max(std::fabs(min), std::fabs(max))) * ensure_minimum_range_;
    return Range{least, std::max(0.0f, std::max(max, least + width))};
  }

  template <typename T>
  Range QuantizeSlice(KernelContext& context, const Slices& slices, int64_t slice, Range range, T* to) const {
    const float* const from = context.input(0).flat<float>().data();
    const auto round = [&](float x) { return rounds_to_even_ ? std::nearbyint(x) : std::round(x); };
    if (mode_ == Mode::kMinFirst) {
      ForSlice(context, slices, slice, from, to, ToLevels<T>(range));
      return range;
    }
    float scale =
        static_cast<float>((static_cast<double>(kHighest<T>) - kLowest<T>) / (range.max - range.min));
    if (mode_ == Mode::kMinCombined) {
      ForSlice(context, slices, slice, from, to, [&](float x) {
        const float level = (std::max(std::min(x, range.max), range.min) - range.min) * scale;
        return static_cast<T>(quantized::ToInt32(round(level - kHalfOfLevels<T>)));
      });
      return range;
    }
    const float lowest = static_cast<float>(kLowest<T> + (is_narrow_ ? 1 : 0));
    const float highest = static_cast<float>(kHighest<T>);
    constexpr float kNone = std::numeric_limits<float>::max();
    scale = std::min(lowest * range.min > 0 ? lowest / range.min : kNone,
                     highest * range.max > 0 ? highest / range.max : kNone);
    range = {lowest / scale, highest / scale};
    ForSlice(context, slices, slice, from, to, [&](float x) {
      return static_cast<T>(quantized::ToInt32(round(std::max(std::min(x, range.max), range.min) * scale)));
    });
    return range;
  }

  const Mode mode_;
  const bool rounds_to_even_, is_narrow_;
  const int64_t axis_;
  const float ensure_minimum_range_;
};

// --- Dequantize ---

class Dequantize final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    if (construction.output_type(0) == DType::kBfloat16 && ModeOf(construction) != Mode::kMinCombined) {
      return absl::InvalidArgumentError(
          absl::StrCat("When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '",
                       construction.attr<std::string>("mode"), "'"));
    }
    return std::unique_ptr<Kernel>(new Dequantize(construction));
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Slices slices, CheckedSlices(context, axis_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, context.input(0).shape()));
    for (int64_t i = 0; i < slices.count; ++i) {
      WEIR_RETURN_IF_ERROR(context.cancellation().reason());
      const Range range = {context.input(1).flat<float>()[i], context.input(2).flat<float>()[i]};
      quantized::WithLevels(context.input(0).dtype(), [&]<typename T>(TypeTag<T>) {
        if (output->dtype() == DType::kFloat32)
          DequantizeSlice<T>(context, slices, i, range, output->flat<float>().data());
        else
          DequantizeSlice<T>(context, slices, i, range, output->flat<Bfloat16>().data());
      });
    }
    return absl::OkStatus();
  }

 private:
  explicit Dequantize(const KernelConstruction& construction)
      : mode_(ModeOf(construction)),
        is_narrow_(construction.attr<bool>("narrow_range")),
        axis_(construction.attr<int64_t>("axis")) {}

  template <typename T, typename To>
  void DequantizeSlice(KernelContext& context, const Slices& slices, int64_t slice, Range range,
                       To* to) const {
    const T* const from = context.input(0).flat<T>().data();
    if (mode_ == Mode::kMinFirst) {
      const FromLevels<T> number(range);
      ForSlice(context, slices, slice, from, to, [&](T level) { return To(number(level)); });
      return;
    }
    if (mode_ == Mode::kMinCombined) {
      const float width = (range.max - range.min) / (static_cast<float>(kHighest<T>) - kLowest<T>);
      ForSlice(context, slices, slice, from, to,
               [&](T level) { return To((static_cast<float>(level) + kHalfOfLevels<T>)*width + range.min); });
      return;
    }
    const float highest = static_cast<float>(kHighest<T>);
    const float lowest = static_cast<float>(kLowest<T> + (is_narrow_ ? 1 : 0));
    const float width =
        kLowest<T> == 0 ? range.max / highest : std::max(range.min / lowest, range.max / highest);
    ForSlice(context, slices, slice, from, to,
             [&](T level) { return To(static_cast<float>(quantized::ToInt32(level)) * width); });
  }

  const Mode mode_;
  const bool is_narrow_;
  const int64_t axis_;
};

// --- QuantizedConcat ---

// The inputs: the axis, N tensors, N least numbers and N largest ones.
struct Parts {
  explicit Parts(KernelContext& context) : context(context), count((context.num_inputs() - 1) / 3) {}

  const Tensor& tensor(int i) const { return context.input(1 + i); }
  Range range(int i) const {
    return {context.input(1 + count + i).scalar<float>(), context.input(1 + 2 * count + i).scalar<float>()};
  }

  KernelContext& context;
  const int count;
};

template <typename T>
Range RangeOfAll(const Parts& parts) {
  Range all = {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
  for (int i = 0; i < parts.count; ++i) {
    all.min = std::min(all.min, parts.range(i).min);
    all.max = std::max(all.max, parts.range(i).max);
  }
  all.min = std::min(0.0f, all.min);
  if (!std::is_signed_v<T>) return all;
  const float most = std::max(std::fabs(all.min), std::fabs(all.max));
  return {-most, most};
}

template <typename T>
void CopyPart(const Tensor& part, Range from, Range to, int64_t rows, int64_t row, T* target) {
  const T* source = part.flat<T>().data();
  const int64_t columns = rows == 0 ? 0 : part.num_elements() / rows;
  const FromLevels<T> number(from);
  const ToLevels<T> level(to);
  const bool is_same = from.min == to.min && from.max == to.max;
  for (int64_t r = 0; r < rows; ++r, source += columns, target += row) {
    if (is_same)
      std::copy_n(source, columns, target);
    else
      std::transform(source, source + columns, target, [&](T x) { return level(number(x)); });
  }
}

absl::StatusOr<Shape> ConcatShape(const Parts& parts, int axis) {
  Dims dims(parts.tensor(0).shape().dims().begin(), parts.tensor(0).shape().dims().end());
  for (int i = 1; i < parts.count; ++i) {
    const Shape& shape = parts.tensor(i).shape();
    bool fits = shape.rank() == static_cast<int>(dims.size());
    for (int d = 0; fits && d < shape.rank(); ++d) fits = d == axis || shape.dim(d) == dims[d];
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("QuantizedConcatOp : Dimensions of inputs should match: shape[0] = ",
                       parts.tensor(0).shape().ToString(), " vs. shape[", i, "] = ", shape.ToString()));
    }
    if (shape.dim(axis) > std::numeric_limits<int64_t>::max() - dims[axis])
      return absl::InvalidArgumentError(absl::StrCat("dimension ", axis, " of the result is too large"));
    dims[axis] += shape.dim(axis);
  }
  return Shape::FromDims(dims);
}

absl::Status QuantizedConcat(KernelContext& context) {
  const Parts parts(context);
  for (int i = 1 + parts.count; i < context.num_inputs(); ++i) {
    if (context.input(i).num_elements() == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be a number, the end of a range, is ",
                                                   context.input(i).shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const int axis,
                        ReadAxis(context.input(0), parts.tensor(0).shape().rank(), "concat_dim"));
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ConcatShape(parts, axis));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  int64_t rows = 1;
  for (int d = 0; d < axis; ++d) rows *= shape.dim(d);
  const int64_t row = rows == 0 ? 0 : output->num_elements() / rows;
  Range range;
  quantized::WithLevels(output->dtype(), [&]<typename T>(TypeTag<T>) {
    range = RangeOfAll<T>(parts);
    T* target = output->flat<T>().data();
    for (int i = 0; i < parts.count && output->num_elements() > 0; ++i) {
      CopyPart(parts.tensor(i), parts.range(i), range, rows, row, target);
      target += parts.tensor(i).num_elements() / rows;
    }
  });
  quantized::SetRangeOutputs(context, range);
  return absl::OkStatus();
}

// --- QuantizedReshape ---

// The shape that input 1 asks for; one dimension may be -1.
absl::StatusOr<Shape> RequestedShape(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Dims dims, ReadIntegers(context.input(1), "shape"));
  const int64_t count = context.input(0).num_elements();
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (dims[i] == -1) {
      if (unknown >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("Only one input size may be -1, not both ", unknown, " and ", i));
      }
      unknown = i;
    } else if (dims[i] < 0 || !MultiplyWithoutOverflow(known, dims[i], &known)) {
      return absl::InvalidArgumentError(absl::StrCat("Size ", i, " must be non-negative, not ", dims[i],
                                                     ", and the sizes must have a product"));
    }
  }
  if (unknown >= 0) {
    const std::optional<int64_t> open = OpenDim(context.input(0).shape(), dims);
    if (!open) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input to reshape is a tensor with ", count,
                       " values, but the requested shape requires a multiple of ", known));
    }
    dims[unknown] = *open;
    known = count;
  }
  if (known != count) {
    return absl::InvalidArgumentError(absl::StrCat("Input to reshape is a tensor with ", count,
                                                   " values, but the requested shape has ", known));
  }
  return Shape::FromDims(dims);
}

absl::Status QuantizedReshape(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, RequestedShape(context));
  WEIR_ASSIGN_OR_RETURN(const Range range, quantized::RangeInput(context, 2, "input"));
  context.set_output(0, context.input(0).WithShape(shape));
  quantized::SetRangeOutputs(context, range);
  return absl::OkStatus();
}

}  // namespace

void RegisterQuantizedTensorsKernels(DeviceKernels& kernels) {
  const std::vector<DType> all = QuantizedDTypes();
  kernels.Add<Quantize>("QuantizeV2", {{"T", all}});
  kernels.Add<Dequantize>("Dequantize", {{"T", all}, {"dtype", {DType::kFloat32, DType::kBfloat16}}});
  kernels.Add<&QuantizedConcat>("QuantizedConcat", {{"T", {DType::kQuint8, DType::kQint32}}});
  kernels.Add<&QuantizedReshape>("QuantizedReshape", {{"T", {DType::kQuint8, DType::kQint32}}});
}

}  // namespace weir
