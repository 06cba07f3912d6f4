// BiasAdd and BiasAddGrad.
#include <algorithm>
#include <complex>
#include <vector>

#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/nn/nn_math.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Nanoseconds per element on one core.
constexpr double kCopyCost = 0.2;
constexpr double kSumCost = 0.15;

template <typename T>
inline constexpr bool kHasVectorMath = std::is_same_v<T, float> || std::is_same_v<T, double>;

// Wraps integers around instead of overflowing.
template <typename T>
T PlainSum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return T(a + b);
  }
}

template <typename T>
class BiasAdd final : public Kernel {
 public:
  explicit BiasAdd(const KernelConstruction& construction)
      : channels_first_(construction.attr<std::string>("data_format") == "NCHW") {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(0);
    const Tensor& bias = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const ChannelView view, ViewChannels(value.shape(), channels_first_));
    WEIR_RETURN_IF_ERROR(CheckBias(view, value.shape(), bias.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, value.shape()));
    if (value.num_elements() == 0) return absl::OkStatus();
    const T* x = value.flat<T>().data();
    const T* b = bias.flat<T>().data();
    T* y = output->flat<T>().data();
    if (view.inner == 1) {
      context.threads().ParallelFor(view.outer, kCopyCost * static_cast<double>(view.channels),
                                    [=](int64_t begin, int64_t end) {
                                      const int64_t at = begin * view.channels;
                                      AddBias(end - begin, view.channels, x + at, b, y + at);
                                    });
    } else {
      context.threads().ParallelFor(view.outer * view.channels, kCopyCost * static_cast<double>(view.inner),
                                    [=](int64_t begin, int64_t end) {
                                      for (int64_t i = begin; i < end; ++i) {
                                        AddOneBias(view.inner, x + i * view.inner, b[i % view.channels],
                                                   y + i * view.inner);
                                      }
                                    });
    }
    return absl::OkStatus();
  }

 private:
  static void AddBias(int64_t rows, int64_t columns, const T* x, const T* bias, T* y) {
    if constexpr (kHasVectorMath<T>) {
      AddToRows<T>(rows, columns, x, bias, y);
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) y[r * columns + c] = PlainSum(x[r * columns + c], bias[c]);
      }
    }
  }
  static void AddOneBias(int64_t count, const T* x, T bias, T* y) {
    for (int64_t i = 0; i < count; ++i) y[i] = PlainSum(x[i], bias);
  }

  const bool channels_first_;
};

template <typename T>
class BiasAddGrad final : public Kernel {
 public:
  explicit BiasAddGrad(const KernelConstruction& construction)
      : channels_first_(construction.attr<std::string>("data_format") == "NCHW") {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& gradient = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const ChannelView view, ViewChannels(gradient.shape(), channels_first_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, {view.channels}));
    const T* x = gradient.flat<T>().data();
    T* sums = output->flat<T>().data();
    if (gradient.num_elements() == 0) {
      std::fill_n(sums, view.channels, T{});
      return absl::OkStatus();
    }
    if (view.inner == 1) return SumRows(context, view, x, sums);
    context.threads().ParallelFor(view.channels, kSumCost * static_cast<double>(view.outer * view.inner),
                                  [=](int64_t begin, int64_t end) {
                                    for (int64_t c = begin; c < end; ++c) sums[c] = SumOfChannel(view, c, x);
                                  });
    return absl::OkStatus();
  }

 private:
  using Sum = ComputeType<T>;
  // The rows are summed in blocks of about this many elements, and then the sums of the blocks, whatever the
  // number of threads: so it cannot change the result.
  static constexpr int64_t kBlockElements = 1 << 16;
  // A block of wide rows is a part of each: then it still has 16 of them, and the blocks' sums together take
  // no more than a sixteenth of the input.
  static constexpr int64_t kMaxBlockColumns = 1 << 12;

  static absl::Status SumRows(KernelContext& context, const ChannelView& view, const T* x, T* sums) {
    if (view.channels == 0) return absl::OkStatus();
    const int64_t channels = view.channels;
    const int64_t block_columns = std::min(channels, kMaxBlockColumns);
    const int64_t block_rows = kBlockElements / block_columns;
    const int64_t across = (channels + block_columns - 1) / block_columns;
    const int64_t down = (view.outer + block_rows - 1) / block_rows;
    const auto columns_of = [=](int64_t begin) { return std::min(block_columns, channels - begin); };
    Tensor partial;
    Sum* block_sums = nullptr;
    if constexpr (std::is_same_v<T, Sum>) {
      if (down == 1) block_sums = sums;
    }
    if (block_sums == nullptr) {
      WEIR_ASSIGN_OR_RETURN(partial, context.AllocateTemporary(DTypeOf<Sum>, Shape({down, channels})));
      block_sums = partial.flat<Sum>().data();
    }
    const double block_cost = kSumCost * static_cast<double>(block_rows * block_columns);
    context.threads().ParallelFor(down * across, block_cost, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block / across * block_rows, column = block % across * block_columns;
        SumBlock(std::min(block_rows, view.outer - row), columns_of(column), x + row * channels + column,
                 channels, block_sums + block / across * channels + column);
      }
    });
    if (!partial.is_valid()) return absl::OkStatus();
    const double column_cost = kSumCost * static_cast<double>(down * block_columns);
    context.threads().ParallelFor(across, column_cost, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t column = block * block_columns;
        AddBlocks(down, columns_of(column), channels, block_sums + column, sums + column);
      }
    });
    return absl::OkStatus();
  }

  static void SumBlock(int64_t rows, int64_t columns, const T* x, int64_t stride, Sum* sums) {
    std::fill_n(sums, columns, Sum{});
    if constexpr (kHasVectorMath<T>) {
      AddColumnSums<T>(rows, columns, x, stride, sums);
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c)
          sums[c] = PlainSum(sums[c], static_cast<Sum>(x[r * stride + c]));
      }
    }
  }

  // The sums of the blocks below each other go to `sums`; those of the first block are overwritten.
  static void AddBlocks(int64_t down, int64_t columns, int64_t stride, Sum* block_sums, T* sums) {
    for (int64_t block = 1; block < down; ++block) {
      const Sum* next = block_sums + block * stride;
      for (int64_t c = 0; c < columns; ++c) block_sums[c] = PlainSum(block_sums[c], next[c]);
    }
    for (int64_t c = 0; c < columns; ++c) sums[c] = T(block_sums[c]);
  }

  static T SumOfChannel(const ChannelView& view, int64_t channel, const T* x) {
    Sum total{};
    for (int64_t o = 0; o < view.outer; ++o) {
      const T* plane = x + (o * view.channels + channel) * view.inner;
      Sum sum{};  // planes apart, so that rounding errors do not grow with the batch
      for (int64_t i = 0; i < view.inner; ++i) sum = PlainSum(sum, static_cast<Sum>(plane[i]));
      total = PlainSum(total, sum);
    }
    return T(total);
  }

  const bool channels_first_;
};

}  // namespace

void RegisterBiasKernels(DeviceKernels& kernels) {
  const auto types = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                           uint16_t, uint32_t, uint64_t, std::complex<float>, std::complex<double>>("T");
  kernels.Add<BiasAdd>("BiasAdd", types);
  kernels.Add<BiasAddGrad>("BiasAddGrad", types);
}

}  // namespace weir
