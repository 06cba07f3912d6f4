// Layers of quantized numbers: convolution, bias, activations, pooling.
//
// Plain loops. Every result is TensorFlow's, level by level.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/quantized_range.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using quantized::Range;

constexpr double kCost = 1;  // nanoseconds per element on one core

// The input's elements [begin, end) of one dimension that a window sees.
struct Extent {
  Extent(const WindowGeometry& windows, int dimension, int64_t position)
      : start(position * windows.stride[dimension] - windows.padding_before[dimension]),
        begin(std::max<int64_t>(0, start)) {
    const int64_t size = windows.input[dimension], window = windows.window[dimension];
    end = window >= size - start ? size : start + window;
  }
  int64_t start, begin, end;
};

// Calls f(image, y, x, position of the pixel in the output) for all pixels of the output, on several threads.
template <typename F>
absl::Status ForEachPixel(KernelContext& context, const WindowGeometry& windows, double cost, const F& f) {
  const int64_t of_image = windows.OutputPixels();
  return ParallelForInTime(context, windows.batch * of_image, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t pixel = i % of_image;
      f(i / of_image, Extent(windows, 0, pixel / windows.output[1]),
        Extent(windows, 1, pixel % windows.output[1]), i);
    }
  });
}

// --- QuantizedConv2D ---

class QuantizedConvolution final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForConvolution(construction));
    const auto& strides = construction.attr<std::vector<int64_t>>("strides");
    if (strides[1] != strides[2]) {
      return absl::InvalidArgumentError(
          "Current implementation only supports equal length strides in the row and column dimensions.");
    }
    for (const int64_t dilation : construction.attr<std::vector<int64_t>>("dilations")) {
      if (dilation == 1) continue;
      return absl::InvalidArgumentError(
          "Current implementation only supports dilated rate as 1 in the row and column dimensions.");
    }
    return std::unique_ptr<Kernel>(new QuantizedConvolution(std::move(attrs)));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &input = context.input(0), &filter = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Range range, quantized::RangeInput(context, 2, "input"));
    WEIR_ASSIGN_OR_RETURN(const Range filter_range, quantized::RangeInput(context, 4, "filter"));
    WEIR_ASSIGN_OR_RETURN(const ConvGeometry geometry, attrs_.Convolution(input.shape(), filter.shape()));
    if (geometry.groups() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("input and filter must have the same depth: ", geometry.windows.channels, " vs ",
                       geometry.group_channels));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, geometry.OutputShape()));
    if (output->num_elements() > 0) {
      WEIR_RETURN_IF_ERROR(Convolve(context, geometry, ZeroOf(range), ZeroOf(filter_range), *output));
    }
    quantized::SetRangeOutputs(context, quantized::ProductRange<uint8_t, uint8_t>(range, filter_range));
    return absl::OkStatus();
  }

 private:
  explicit QuantizedConvolution(WindowAttrs attrs) : attrs_(std::move(attrs)) {}

  // The level of zero, also of padding.
  static uint32_t ZeroOf(Range range) {
    return static_cast<uint32_t>(quantized::QuantizedUnclamped<uint8_t>(0.0f, range));
  }

  static absl::Status Convolve(KernelContext& context, const ConvGeometry& geometry, uint32_t zero,
                               uint32_t filter_zero, Tensor& output) {
    const WindowGeometry& windows = geometry.windows;
    const uint8_t* const from = context.input(0).flat<uint8_t>().data();
    const uint8_t* const filter = context.input(1).flat<uint8_t>().data();
    const int64_t inputs = windows.channels, outputs = geometry.output_channels;
    const double cost = kCost * static_cast<double>(inputs) * static_cast<double>(outputs) *
                        static_cast<double>(windows.window[0]) * static_cast<double>(windows.window[1]);
    return ForEachPixel(context, windows, cost, [&](int64_t image, Extent ys, Extent xs, int64_t pixel) {
      // Sums wrap as those of int32 do.
      int32_t* const to = output.flat<int32_t>().data() + pixel * outputs;
      std::fill_n(to, outputs, 0);
      for (int64_t y = ys.begin; y < ys.end; ++y) {
        for (int64_t x = xs.begin; x < xs.end; ++x) {
          const uint8_t* const in = from + ((image * windows.input[0] + y) * windows.input[1] + x) * inputs;
          const int64_t tap = (y - ys.start) * windows.window[1] + x - xs.start;
          for (int64_t i = 0; i < inputs; ++i) {
            const uint8_t* const weights = filter + (tap * inputs + i) * outputs;
            const uint32_t number = in[i] - zero;
            for (int64_t o = 0; o < outputs; ++o)
              to[o] =
                  static_cast<int32_t>(static_cast<uint32_t>(to[o]) + number * (weights[o] - filter_zero));
          }
        }
      }
    });
  }

  const WindowAttrs attrs_;
};

// --- pooling ---

template <typename T>
struct Largest {
  void Add(T x) { most = std::max(most, x); }
  T result() const { return most; }
  T most = std::numeric_limits<T>::lowest();
};

// Rounded towards zero. Padding does not count.
template <typename T>
struct Mean {
  void Add(T x) {
    sum += x;
    ++count;
  }
  T result() const { return static_cast<T>(sum / count); }
  int64_t sum = 0, count = 0;
};

template <template <typename> class Summary>
class QuantizedPool final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForPooling(construction));
    return std::unique_ptr<Kernel>(new QuantizedPool(std::move(attrs)));
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Range range, quantized::RangeInput(context, 1, "input"));
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry windows, attrs_.Pooling(context.input(0).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, windows.ImageShape(windows.output, windows.channels)));
    absl::Status status;
    if (output->num_elements() == 0) {  // of pixels without channels, there may be any number
      quantized::SetRangeOutputs(context, range);
      return status;
    }
    quantized::WithLevels(output->dtype(), [&]<typename T>(TypeTag<T>) {
      status = Pool(context, windows, context.input(0).flat<T>().data(), output->flat<T>().data());
    });
    quantized::SetRangeOutputs(context, range);
    return status;
  }

 private:
  explicit QuantizedPool(WindowAttrs attrs) : attrs_(std::move(attrs)) {}

  template <typename T>
  static absl::Status Pool(KernelContext& context, const WindowGeometry& windows, const T* from, T* to) {
    const double cost = kCost * static_cast<double>(windows.window[0]) *
                        static_cast<double>(windows.window[1]) * static_cast<double>(windows.channels);
    return ForEachPixel(context, windows, cost, [&](int64_t image, Extent ys, Extent xs, int64_t pixel) {
      for (int64_t c = 0; c < windows.channels; ++c) {
        Summary<T> summary;
        for (int64_t y = ys.begin; y < ys.end; ++y) {
          const int64_t row = (image * windows.input[0] + y) * windows.input[1];
          for (int64_t x = xs.begin; x < xs.end; ++x) summary.Add(from[(row + x) * windows.channels + c]);
        }
        to[pixel * windows.channels + c] = summary.result();
      }
    });
  }

  const WindowAttrs attrs_;
};

// --- bias and activations ---

absl::Status QuantizedBiasAdd(KernelContext& context) {
  const Tensor &input = context.input(0), &bias = context.input(1);
  WEIR_ASSIGN_OR_RETURN(const Range range, quantized::RangeInput(context, 2, "input"));
  WEIR_ASSIGN_OR_RETURN(const Range bias_range, quantized::RangeInput(context, 4, "bias"));
  if (input.shape().rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("Input tensor must be at least 2D: ", input.shape().ToString()));
  }
  const int64_t channels = input.shape().dim(input.shape().rank() - 1);
  if (bias.shape() != Shape({channels})) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Must provide as many biases as the last dimension of the input tensor: ", bias.shape().ToString(),
        " vs. ", input.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  const Range sum = quantized::SumRange(range, bias_range, 17);
  quantized::WithLevels(input.dtype(), [&]<typename T>(TypeTag<T>) {
    const quantized::FromLevels<T> number(range), bias_number(bias_range);
    const quantized::ToLevels<int32_t> level(sum);
    const T *const x = input.flat<T>().data(), *const b = bias.flat<T>().data();
    int32_t* const to = output->flat<int32_t>().data();
    context.threads().ParallelFor(input.num_elements(), 4 * kCost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto of_input = static_cast<uint32_t>(level(number(x[i])));
        to[i] = static_cast<int32_t>(of_input + static_cast<uint32_t>(level(bias_number(b[i % channels]))));
      }
    });
  });
  quantized::SetRangeOutputs(context, sum);
  return absl::OkStatus();
}

// Numbers below zero become zero, those above `most` become that.
absl::Status Rectify(KernelContext& context, float most) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(const Range range, quantized::RangeInput(context, 1, "features"));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, input.shape()));
  quantized::WithLevels(input.dtype(), [&]<typename T>(TypeTag<T>) {
    const T lowest = quantized::Quantized<T>(0.0f, range);
    const bool is_bounded = most < std::numeric_limits<float>::infinity();
    const T highest = is_bounded ? quantized::Quantized<T>(most, range) : std::numeric_limits<T>::max();
    const T* const from = input.flat<T>().data();
    T* const to = output->flat<T>().data();
    for (int64_t i = 0; i < input.num_elements(); ++i) to[i] = std::min(std::max(from[i], lowest), highest);
  });
  quantized::SetRangeOutputs(context, range);
  return absl::OkStatus();
}

absl::Status QuantizedRelu(KernelContext& context) {
  return Rectify(context, std::numeric_limits<float>::infinity());
}
absl::Status QuantizedRelu6(KernelContext& context) { return Rectify(context, 6.0f); }

}  // namespace

void RegisterQuantizedLayersKernels(DeviceKernels& kernels) {
  const std::vector<DType> bytes = {DType::kQuint8}, signed_bytes = {DType::kQint8}, words = {DType::kQint32};
  kernels.Add<QuantizedConvolution>("QuantizedConv2D",
                                    {{"Tinput", bytes}, {"Tfilter", bytes}, {"out_type", words}});
  for (const std::vector<DType>& dtype : {bytes, signed_bytes})
    kernels.Add<&QuantizedBiasAdd>("QuantizedBiasAdd", {{"T1", dtype}, {"T2", dtype}, {"out_type", words}});
  for (const std::vector<DType>& dtype : {bytes, words}) {
    kernels.Add<&QuantizedRelu>("QuantizedRelu", {{"Tinput", dtype}, {"out_type", dtype}});
    kernels.Add<&QuantizedRelu6>("QuantizedRelu6", {{"Tinput", dtype}, {"out_type", dtype}});
  }
  kernels.Add<QuantizedPool<Largest>>("QuantizedMaxPool", {{"T", {DType::kQuint8, DType::kQint8}}});
  kernels.Add<QuantizedPool<Mean>>("QuantizedAvgPool", {{"T", {DType::kQuint8, DType::kQint8}}});
}

}  // namespace weir
