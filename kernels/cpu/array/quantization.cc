// Numbers rounded to those that few bits can tell apart: QuantizeAndDequantizeV2 to V4 and
// FakeQuantWithMinMax*.
//
// Formulas and the order of operations are TensorFlow's, so that results are equal to the last bit but where
// a compiler contracts products and sums.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 2;  // nanoseconds per element on one core

// A tensor as [before, channels, after]: one channel where no axis is given.
struct Channels {
  int64_t before = 1, count = 1, after = 1;
};

Channels ChannelsOf(const Shape& shape, int axis) {
  Channels channels;
  if (axis < 0) {
    channels.after = shape.num_elements();
    return channels;
  }
  for (int i = 0; i < shape.rank(); ++i)
    (i < axis ? channels.before : i == axis ? channels.count : channels.after) *= shape.dim(i);
  return channels;
}

// Calls f(channel, begin, end) for all elements, [begin, end) next to each other and of one channel.
void ForEachRun(ThreadPool& threads, const Channels& channels,
                absl::FunctionRef<void(int64_t channel, int64_t begin, int64_t end)> f) {
  const int64_t total = channels.before * channels.count * channels.after;
  if (total == 0) return;
  threads.ParallelFor(total, kCost, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t run = begin / channels.after, run_end = std::min(end, (run + 1) * channels.after);
      f(run % channels.count, begin, run_end);
      begin = run_end;
    }
  });
}

// ---- QuantizeAndDequantize ----

struct Levels {
  int64_t least, most;  // whole numbers
};

absl::StatusOr<Levels> LevelsOf(int64_t num_bits, bool is_signed, bool is_narrow, absl::string_view attr) {
  if (num_bits <= 0 || num_bits >= (is_signed ? 62 : 63)) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_bits is out of range: ", num_bits, " with ", attr, " ", is_signed ? 1 : 0));
  }
  const int64_t half = int64_t{1} << (num_bits - 1);
  if (!is_signed) return Levels{0, 2 * half - 1};
  return Levels{is_narrow ? 1 - half : -half, half - 1};
}

// What one channel's numbers are rounded with.
template <typename T>
struct Rounding {
  T least, most;  // of numbers that are clamped
  T scale, inverse;

  // The largest scale that maps [least, most] into the levels, with zero on a level.
  Rounding(T least_number, T most_number, const Levels& levels) : least(least_number), most(most_number) {
    const T lowest = static_cast<T>(levels.least), highest = static_cast<T>(levels.most);
    const T of_least = lowest * least > 0 ? lowest / least : std::numeric_limits<T>::max();
    const T of_most = highest * most > 0 ? highest / most : std::numeric_limits<T>::max();
    if (of_least < of_most) {
      scale = of_least;
      inverse = least / lowest;
      most = highest * inverse;
    } else {
      scale = of_most;
      inverse = most / highest;
      least = lowest * inverse;
    }
  }

  T Round(T x, bool clamps, bool rounds_half_up) const {
    const T scaled = (clamps ? std::max(std::min(x, most), least) : x) * scale;
    return (rounds_half_up ? std::floor(scaled + T(0.5)) : std::nearbyint(scaled)) * inverse;
  }
};

struct QuantizeOptions {
  int axis;
  bool is_signed, is_narrow, range_given, rounds_half_up;
};

absl::Status CheckAxis(const Shape& shape, int axis) {
  if (axis < -1) return absl::InvalidArgumentError(absl::StrCat("Axis must be at least -1. Found ", axis));
  if (axis < shape.rank()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Axis requested is larger than input dimensions. Axis: ", axis, " Input Dimensions: ", shape.rank()));
}

// Input `index` has a number for all elements, or one for each channel.
absl::Status CheckRange(const Tensor& bound, absl::string_view name, const QuantizeOptions& options,
                        const Channels& channels) {
  if (options.axis < 0) {
    if (bound.shape().is_scalar()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be a scalar. It is ", bound.shape().ToString()));
  }
  if (bound.shape() == Shape({channels.count})) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, "_tensor has incorrect size, was ",
                                                 bound.shape().rank() == 1 ? bound.shape().dim(0) : -1,
                                                 " expected ", channels.count, " to match dim ", options.axis,
                                                 " of the input ", bound.shape().ToString()));
}

// The least and the largest number of each channel. NaN counts for nothing.
template <typename T>
void FindRange(const T* x, const Channels& channels, T* least, T* most) {
  std::fill_n(least, channels.count, std::numeric_limits<T>::infinity());
  std::fill_n(most, channels.count, -std::numeric_limits<T>::infinity());
  for (int64_t b = 0; b < channels.before; ++b) {
    for (int64_t c = 0; c < channels.count; ++c, x += channels.after) {
      for (int64_t i = 0; i < channels.after; ++i) {
        if (x[i] < least[c]) least[c] = x[i];
        if (x[i] > most[c]) most[c] = x[i];
      }
    }
  }
}

template <typename T>
absl::Status Quantize(KernelContext& context, const QuantizeOptions& options, const Levels& levels) {
  const Tensor& input = context.input(0);
  WEIR_RETURN_IF_ERROR(CheckAxis(input.shape(), options.axis));
  const Channels channels = ChannelsOf(input.shape(), options.axis);
  WEIR_ASSIGN_OR_RETURN(const Shape two_for_each, Shape::FromDims({2, channels.count}));
  WEIR_ASSIGN_OR_RETURN(Tensor ranges, context.AllocateTemporary(DTypeOf<T>, two_for_each));
  T* const least = ranges.flat<T>().data();
  T* const most = least + channels.count;
  if (options.range_given) {
    WEIR_RETURN_IF_ERROR(CheckRange(context.input(1), "input_min", options, channels));
    WEIR_RETURN_IF_ERROR(CheckRange(context.input(2), "input_max", options, channels));
    std::copy_n(context.input(1).flat<T>().data(), channels.count, least);
    std::copy_n(context.input(2).flat<T>().data(), channels.count, most);
    for (int64_t c = 0; c < channels.count; ++c) {
      if (least[c] <= most[c]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Invalid range: input_min ", least[c], " > input_max ", most[c]));
    }
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  const T* const from = input.flat<T>().data();
  T* const to = output->flat<T>().data();
  if (input.num_elements() == 0) return absl::OkStatus();
  if (!options.range_given) FindRange(from, channels, least, most);
  ForEachRun(context.threads(), channels, [&](int64_t channel, int64_t begin, int64_t end) {
    const Rounding<T> rounding(least[channel], most[channel], levels);
    for (int64_t i = begin; i < end; ++i)
      to[i] = rounding.Round(from[i], options.range_given, options.rounds_half_up);
  });
  return absl::OkStatus();
}

QuantizeOptions OptionsOf(const KernelConstruction& construction) {
  return {.axis = static_cast<int>(std::clamp<int64_t>(construction.attr<int64_t>("axis"), -2, 1 << 20)),
          .is_signed = construction.attr<bool>("signed_input"),
          .is_narrow = construction.attr<bool>("narrow_range"),
          .range_given = construction.attr<bool>("range_given"),
          .rounds_half_up = false};
}

// V2 and V4: the number of bits is an attr.
template <typename T>
class QuantizeAndDequantize final : public Kernel {
 public:
  explicit QuantizeAndDequantize(const KernelConstruction& construction)
      : options_(OptionsOf(construction)), num_bits_(construction.attr<int64_t>("num_bits")) {
    options_.rounds_half_up = construction.attr<std::string>("round_mode") == "HALF_UP";
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Levels levels,
                          LevelsOf(num_bits_, options_.is_signed, options_.is_narrow, "signed_input_"));
    return Quantize<T>(context, options_, levels);
  }

 private:
  QuantizeOptions options_;
  const int64_t num_bits_;
};

// V3: it is an input.
template <typename T>
class QuantizeAndDequantizeV3 final : public Kernel {
 public:
  explicit QuantizeAndDequantizeV3(const KernelConstruction& construction)
      : options_(OptionsOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& num_bits = context.input(3);
    if (!num_bits.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Invalid shape. The `num_bits` tensor should be a scalar. Got dimensions: ",
                       num_bits.shape().rank()));
    }
    WEIR_ASSIGN_OR_RETURN(const Levels levels, LevelsOf(num_bits.scalar<int32_t>(), options_.is_signed,
                                                        options_.is_narrow, "`signed_input_`"));
    return Quantize<T>(context, options_, levels);
  }

 private:
  const QuantizeOptions options_;
};

// The gradient passes where the input lies in its range. The bounds get none.
template <typename T>
class QuantizeAndDequantizeV4Grad final : public Kernel {
 public:
  explicit QuantizeAndDequantizeV4Grad(const KernelConstruction& construction)
      : axis_(static_cast<int>(std::clamp<int64_t>(construction.attr<int64_t>("axis"), -2, 1 << 20))) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &gradients = context.input(0), &input = context.input(1);
    const Shape& shape = input.shape();
    if (gradients.shape() != shape) {
      return absl::InvalidArgumentError(absl::StrCat("gradient and input must be the same size: they are ",
                                                     gradients.shape().ToString(), " and ",
                                                     shape.ToString()));
    }
    if (axis_ < -1 || (axis_ > 0 && axis_ >= shape.rank())) {
      return absl::InvalidArgumentError(absl::StrCat("Axis should be -1 or 0 or a positive value less than ",
                                                     shape.rank(), "but given axis value was ", axis_));
    }
    if (axis_ >= shape.rank()) return CheckAxis(shape, axis_);
    const Channels channels = ChannelsOf(shape, axis_);
    for (const int i : {2, 3})
      WEIR_RETURN_IF_ERROR(CheckBound(context.input(i).shape(), i == 2 ? "min" : "max", channels.count));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    for (const int i : {1, 2}) {
      WEIR_ASSIGN_OR_RETURN(Tensor * zeros, context.AllocateOutput(i, context.input(i + 1).shape()));
      std::fill_n(zeros->flat<T>().data(), zeros->num_elements(), T(0));
    }
    const T* const g = gradients.flat<T>().data();
    const T* const x = input.flat<T>().data();
    const T* const least = context.input(2).flat<T>().data();
    const T* const most = context.input(3).flat<T>().data();
    T* const to = output->flat<T>().data();
    ForEachRun(context.threads(), channels, [&](int64_t channel, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = x[i] >= least[channel] && x[i] <= most[channel] ? g[i] : T(0);
    });
    return absl::OkStatus();
  }

 private:
  absl::Status CheckBound(const Shape& bound, absl::string_view name, int64_t channels) const {
    if (axis_ < 0) {
      if (bound.is_scalar()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("input_", name, " must be a scalar if axis is unspecified, is ", bound.ToString()));
    }
    if (bound == Shape({channels})) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, " has incorrect size, expected ", channels, " was ",
                                                   bound.rank() == 1 ? bound.dim(0) : -1, ": it is ",
                                                   bound.ToString()));
  }

  const int axis_;
};

// ---- FakeQuant ----

// A range moved a little, so that zero is one of its levels. Jacob et al., "Quantization and Training of
// Neural Networks for Efficient Integer-Arithmetic-Only Inference" (2018), section 3.
struct Nudged {
  float least, most, scale;

  Nudged(float min, float max, float lowest, float highest) {
    scale = (max - min) / (highest - lowest);
    const float zero = lowest - min / scale;
    const float level = zero < lowest ? lowest : zero > highest ? highest : std::round(zero);
    least = (lowest - level) * scale;
    most = (highest - level) * scale;
  }

  // A number of the range as one of its levels.
  void Round(const float* from, int64_t count, float* to) const {
    const float inverse = 1.0f / scale, zero = std::floor(-least * inverse + 0.5f);
    for (int64_t i = 0; i < count; ++i) {
      const float shifted = std::max(std::min(from[i], most), least) - least;
      to[i] = std::floor(shifted * inverse - zero + 0.5f) * scale;
    }
  }
};

class FakeQuant : public Kernel {
 protected:
  explicit FakeQuant(const KernelConstruction& construction)
      : lowest_(construction.attr<bool>("narrow_range") ? 1 : 0),
        num_bits_(construction.attr<int64_t>("num_bits")) {}

  absl::Status CheckBits() const {
    if (num_bits_ >= 2 && num_bits_ <= 16) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("num_bits must be between 2 and 16, inclusive, is ", num_bits_));
  }
  Nudged NudgedOf(float min, float max) const {
    return Nudged(min, max, lowest_, static_cast<float>((1 << num_bits_) - 1));
  }

  // How the elements are split: all in one channel, or those of the last dimension. `min` is the first bound.
  static absl::StatusOr<Channels> ReadChannels(KernelContext& context, int inputs, int min,
                                               bool per_channel) {
    const Shape& shape = context.input(inputs).shape();
    if (per_channel && shape.rank() == 0)
      return absl::InvalidArgumentError("inputs must have a last dimension of channels, is a scalar");
    const Channels channels = ChannelsOf(shape, per_channel ? shape.rank() - 1 : -1);
    for (const int i : {min, min + 1}) {
      const Shape& bound = context.input(i).shape();
      const char* const name = i == min ? "min" : "max";
      if (bound.rank() != (per_channel ? 1 : 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("`", name, "` must be rank ", per_channel ? 1 : 0, " but is rank ", bound.rank()));
      }
      if (per_channel && bound.dim(0) != channels.count) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, " has incorrect size, expected ", channels.count, " was ", bound.dim(0)));
      }
    }
    return channels;
  }

  static absl::Status CheckSameSize(const Shape& gradients, const Shape& inputs) {
    if (gradients == inputs) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("gradient and input must be the same size: they are ",
                                                   gradients.ToString(), " and ", inputs.ToString()));
  }

 private:
  const float lowest_;
  const int64_t num_bits_;
};

// The bounds are attrs, or inputs 1 and 2.
class FakeQuantWithMinMaxArgs final : public FakeQuant {
 public:
  explicit FakeQuantWithMinMaxArgs(const KernelConstruction& construction)
      : FakeQuant(construction),
        min_(construction.attr<float>("min")),
        max_(construction.attr<float>("max")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckBits());
    WEIR_RETURN_IF_ERROR(CheckBounds());
    const bool is_gradient = context.num_inputs() == 2;
    const Tensor& inputs = context.input(is_gradient ? 1 : 0);
    if (is_gradient && context.input(0).shape() != inputs.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradients and inputs must have the same size and shape.  Input 0: ",
                       context.input(0).shape().ToString(), " != input 1: ", inputs.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, inputs.shape()));
    const Nudged nudged = NudgedOf(min_, max_);
    const float* const x = inputs.flat<float>().data();
    const float* const g = context.input(0).flat<float>().data();
    float* const to = output->flat<float>().data();
    context.threads().ParallelFor(inputs.num_elements(), kCost, [&](int64_t begin, int64_t end) {
      if (!is_gradient) return nudged.Round(x + begin, end - begin, to + begin);
      for (int64_t i = begin; i < end; ++i)
        to[i] = g[i] * (x[i] >= nudged.least && x[i] <= nudged.most ? 1.0f : 0.0f);
    });
    return absl::OkStatus();
  }

 private:
  absl::Status CheckBounds() const {
    if (min_ < max_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("min has to be smaller than max, was: ", min_, " >= ", max_));
  }

  const float min_, max_;
};

template <bool per_channel>
class FakeQuantWithMinMaxVars final : public FakeQuant {
 public:
  explicit FakeQuantWithMinMaxVars(const KernelConstruction& construction) : FakeQuant(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckBits());
    WEIR_ASSIGN_OR_RETURN(const Channels channels, ReadChannels(context, 0, 1, per_channel));
    const Tensor& inputs = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, inputs.shape()));
    const float* const min = context.input(1).flat<float>().data();
    const float* const max = context.input(2).flat<float>().data();
    const float* const x = inputs.flat<float>().data();
    float* const to = output->flat<float>().data();
    ForEachRun(context.threads(), channels, [&](int64_t channel, int64_t begin, int64_t end) {
      if (min[channel] == 0 && max[channel] == 0)
        std::fill(to + begin, to + end, 0.0f);
      else
        NudgedOf(min[channel], max[channel]).Round(x + begin, end - begin, to + begin);
    });
    return absl::OkStatus();
  }
};

// The gradient flows to the input inside of the range, and to a bound from beyond it.
template <bool per_channel>
class FakeQuantWithMinMaxVarsGradient final : public FakeQuant {
 public:
  explicit FakeQuantWithMinMaxVarsGradient(const KernelConstruction& construction)
      : FakeQuant(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckBits());
    const Tensor &gradients = context.input(0), &inputs = context.input(1);
    WEIR_RETURN_IF_ERROR(CheckSameSize(gradients.shape(), inputs.shape()));
    WEIR_ASSIGN_OR_RETURN(const Channels channels, ReadChannels(context, 1, 2, per_channel));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, inputs.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * of_min, context.AllocateOutput(1, context.input(2).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * of_max, context.AllocateOutput(2, context.input(3).shape()));
    const float* const min = context.input(2).flat<float>().data();
    const float* const max = context.input(3).flat<float>().data();
    const float* const g = gradients.flat<float>().data();
    const float* const x = inputs.flat<float>().data();
    float* const to = output->flat<float>().data();
    context.threads().ParallelFor(channels.count,
                                  kCost * static_cast<double>(channels.before * channels.after),
                                  [&](int64_t begin, int64_t end) {
                                    for (int64_t c = begin; c < end; ++c) {
                                      const Bounds sums = OfChannel(channels, c, min[c], max[c], g, x, to);
                                      of_min->flat<float>()[c] = static_cast<float>(sums.min);
                                      of_max->flat<float>()[c] = static_cast<float>(sums.max);
                                    }
                                  });
    return absl::OkStatus();
  }

 private:
  struct Bounds {
    double min = 0, max = 0;
  };

  Bounds OfChannel(const Channels& channels, int64_t channel, float min, float max, const float* g,
                   const float* x, float* to) const {
    Bounds sums;
    const bool is_null = min == 0 && max == 0;
    const Nudged nudged = NudgedOf(min, max);
    for (int64_t b = 0; b < channels.before; ++b) {
      const int64_t first = (b * channels.count + channel) * channels.after;
      for (int64_t i = first; i < first + channels.after; ++i) {
        const bool is_inside = is_null || (x[i] >= nudged.least && x[i] <= nudged.most);
        to[i] = g[i] * (is_inside ? 1.0f : 0.0f);
        if (is_inside) continue;
        if (x[i] < nudged.least) sums.min += g[i];
        if (x[i] > nudged.most) sums.max += g[i];
      }
    }
    return sums;
  }
};

}  // namespace

void RegisterQuantizationKernels(DeviceKernels& kernels) {
  const Types<float, double> types("T");
  kernels.Add<QuantizeAndDequantize>("QuantizeAndDequantizeV2", types);
  kernels.Add<QuantizeAndDequantizeV3>("QuantizeAndDequantizeV3", types);
  kernels.Add<QuantizeAndDequantize>("QuantizeAndDequantizeV4", types);
  kernels.Add<QuantizeAndDequantizeV4Grad>("QuantizeAndDequantizeV4Grad", types);
  kernels.Add<FakeQuantWithMinMaxArgs>("FakeQuantWithMinMaxArgs");
  kernels.Add<FakeQuantWithMinMaxArgs>("FakeQuantWithMinMaxArgsGradient");
  kernels.Add<FakeQuantWithMinMaxVars<false>>("FakeQuantWithMinMaxVars");
  kernels.Add<FakeQuantWithMinMaxVars<true>>("FakeQuantWithMinMaxVarsPerChannel");
  kernels.Add<FakeQuantWithMinMaxVarsGradient<false>>("FakeQuantWithMinMaxVarsGradient");
  kernels.Add<FakeQuantWithMinMaxVarsGradient<true>>("FakeQuantWithMinMaxVarsPerChannelGradient");
}

}  // namespace weir
