// MaxPoolWithArgmax and its gradient.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/nn/window_parts.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Positions count elements of a whole batch, or of one of its images.
struct PooledBatch {
  int64_t input_elements() const { return geometry.InputPixels() * geometry.channels; }
  int64_t output_elements() const { return geometry.OutputPixels() * geometry.channels; }
  // Of the first element of image `n`.
  int64_t position(int64_t n) const { return counts_batch ? n * input_elements() : 0; }

  WindowGeometry geometry;
  bool counts_batch;
};

struct Extent {
  int64_t begin, end;
};
Extent WindowInside(const WindowGeometry& g, int dimension, int64_t output) {
  const int64_t begin = output * g.stride[dimension] - g.padding_before[dimension];
  return {std::max<int64_t>(begin, 0), std::min(begin + g.window[dimension], g.input[dimension])};
}

// One window in one channel. As in TensorFlow NaN is the maximum where it comes first, and no other counts.
template <typename T, typename I>
void FindMaximum(const WindowGeometry& g, const T* image, Extent rows, Extent columns, int64_t channel,
                 int64_t position, T& maximum, I& argmax) {
  int64_t best = (rows.begin * g.input[1] + columns.begin) * g.channels + channel;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const int64_t at = (row * g.input[1] + column) * g.channels + channel;
      if (image[at] > image[best]) best = at;
    }
  }
  maximum = image[best];
  argmax = static_cast<I>(position + best);
}

// Part `g` of image `n`, whose output begins at element `out`.
template <typename T, typename I>
void PoolPart(const PooledBatch& batch, const WindowGeometry& g, int64_t n, int64_t out, const T* input,
              T* maxima, I* argmax) {
  const T* const image = input + n * batch.input_elements();
  for (int64_t y = 0; y < g.output[0]; ++y) {
    const Extent rows = WindowInside(g, 0, y);
    for (int64_t x = 0; x < g.output[1]; ++x) {
      const Extent columns = WindowInside(g, 1, x);
      for (int64_t c = 0; c < g.channels; ++c, ++out) {
        FindMaximum(g, image, rows, columns, c, batch.position(n), maxima[out], argmax[out]);
      }
    }
  }
}

class ArgmaxKernel : public Kernel {
 public:
  ArgmaxKernel(WindowAttrs attrs, bool counts_batch)
      : attrs_(std::move(attrs)), counts_batch_(counts_batch) {}

 protected:
  absl::StatusOr<PooledBatch> BatchOf(const Shape& input) const {
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, attrs_.Pooling(input));
    return PooledBatch{geometry, counts_batch_};
  }
  static Shape OutputShape(const PooledBatch& batch) {
    return batch.geometry.ImageShape(batch.geometry.output, batch.geometry.channels);
  }

 private:
  const WindowAttrs attrs_;
  const bool counts_batch_;
};

template <typename Pool>
struct Checked {
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForPooling(construction));
    return std::make_unique<Pool>(std::move(attrs), construction.attr<bool>("include_batch_in_index"));
  }
};

template <typename T, typename I>
class WithArgmax final : public ArgmaxKernel {
 public:
  using ArgmaxKernel::ArgmaxKernel;

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const PooledBatch batch, BatchOf(input.shape()));
    WEIR_RETURN_IF_ERROR(CheckPositions(batch));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, OutputShape(batch)));
    WEIR_ASSIGN_OR_RETURN(Tensor * argmax, context.AllocateOutput(1, OutputShape(batch)));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, input));
    WEIR_ASSIGN_OR_RETURN(Tensor y, WideOutput(context, *output));
    const WindowGeometry& g = batch.geometry;
    const auto cost = static_cast<double>(g.channels);
    WEIR_RETURN_IF_ERROR(
        ParallelForInTime(context, g.batch, g.PixelPairs() * cost, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            ForEachPart(context, g, cost, [&](const WindowGeometry& part, int64_t first) {
              PoolPart(batch, part, n, n * batch.output_elements() + first * g.channels,
                       x.flat<Wide>().data(), y.flat<Wide>().data(), argmax->flat<I>().data());
            });
          }
        }));
    Narrow(context, y, output);
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckPositions(const PooledBatch& batch) {
    const int64_t count = (batch.counts_batch ? batch.geometry.batch : 1) * batch.input_elements();
    if (count <= std::numeric_limits<I>::max()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("positions of ", count, " elements do not fit in int32: ask for Targmax int64"));
  }
};

// Each gradient goes to its position in the input.
template <typename T, typename I>
class GradWithArgmax final : public ArgmaxKernel {
 public:
  using ArgmaxKernel::ArgmaxKernel;

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Shape& shape = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const PooledBatch batch, BatchOf(shape));
    for (const int i : {1, 2}) {
      if (context.input(i).shape() == OutputShape(batch)) continue;
      return absl::InvalidArgumentError(absl::StrCat(i == 1 ? "grad" : "argmax", " must be ",
                                                     OutputShape(batch).ToString(), ", is ",
                                                     context.input(i).shape().ToString()));
    }
    WEIR_RETURN_IF_ERROR(CheckArgmax(batch, context.input(2)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor gradient, Widen(context, context.input(1)));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    const absl::Span<Wide> sums = result.flat<Wide>();
    std::fill(sums.begin(), sums.end(), Wide(0));
    for (int64_t i = 0; i < gradient.num_elements(); ++i) {
      Wide& sum = sums[PositionInBatch(batch, context.input(2), i)];
      sum = elementwise::Add()(sum, gradient.flat<Wide>()[i]);
    }
    Narrow(context, result, output);
    return absl::OkStatus();
  }

 private:
  static int64_t PositionInBatch(const PooledBatch& batch, const Tensor& argmax, int64_t i) {
    const int64_t n = i / batch.output_elements();
    return argmax.flat<I>()[i] + (batch.counts_batch ? 0 : n * batch.input_elements());
  }

  static absl::Status CheckArgmax(const PooledBatch& batch, const Tensor& argmax) {
    const int64_t count = (batch.counts_batch ? batch.geometry.batch : 1) * batch.input_elements();
    for (int64_t i = 0; i < argmax.num_elements(); ++i) {
      const int64_t position = argmax.flat<I>()[i];
      if (position >= 0 && position < count) continue;
      return absl::InvalidArgumentError(absl::StrCat("argmax, element ", i, ", is ", position,
                                                     ": no position in ", count, " elements of the input"));
    }
    return absl::OkStatus();
  }
};

template <typename T, typename I>
using WithArgmaxKernel = Checked<WithArgmax<T, I>>;
template <typename T, typename I>
using GradWithArgmaxKernel = Checked<GradWithArgmax<T, I>>;

}  // namespace

void RegisterPoolingWithArgmaxKernels(DeviceKernels& kernels) {
  const auto reals = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                           uint16_t, uint32_t, uint64_t>("T");
  const auto positions = Types<int32_t, int64_t>("Targmax");
  kernels.Add<WithArgmaxKernel>("MaxPoolWithArgmax", reals, positions);
  kernels.Add<GradWithArgmaxKernel>("MaxPoolGradWithArgmax", reals, positions);
}

}  // namespace weir
