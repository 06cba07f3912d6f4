// Dilation2D and its gradients: J. Serra, "Image analysis and mathematical morphology" (1982). The gradient
// of a maximum flows to the first place that has it.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr double kTermCost = 2;  // nanoseconds on one core

template <typename T>
T Lowest() {
  if constexpr (std::is_same_v<T, Half>)
    return Half(-65504.0f);
  else if constexpr (std::is_same_v<T, Bfloat16>)
    return Bfloat16::FromBits(0xff7f);
  else
    return std::numeric_limits<T>::lowest();
}

// Sums wrap around, as those of TensorFlow do.
template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return static_cast<T>(a + b);
  }
}

// One axis of the window.
struct Window {
  int64_t image, filter, stride, rate, size, before;
  int64_t At(int64_t i, int64_t k) const { return i * stride - before + k * rate; }
  // Where the window begins, or the image if that is later.
  int64_t First(int64_t i) const { return std::clamp<int64_t>(At(i, 0), 0, std::max<int64_t>(image - 1, 0)); }
  bool Contains(int64_t at) const { return at >= 0 && at < image; }
};

struct Dilation {
  int64_t batch, depth;
  Window rows, columns;

  Shape OutputShape() const { return Shape({batch, rows.size, columns.size, depth}); }
};

class DilationAttrs {
 public:
  static absl::StatusOr<DilationAttrs> Of(const KernelConstruction& construction) {
    DilationAttrs attrs;
    WEIR_ASSIGN_OR_RETURN(attrs.strides_, Read(construction, "strides", "Stride"));
    WEIR_ASSIGN_OR_RETURN(attrs.rates_, Read(construction, "rates", "Rate"));
    attrs.padding_ = construction.attr<std::string>("padding");
    return attrs;
  }

  absl::StatusOr<Dilation> Slide(const Shape& input, const Shape& filter) const {
    if (input.rank() != 4) {
      return InvalidArgumentError(StrCat("input must be 4-dimensional", input.ToString()));
    }
    if (filter.rank() != 3) {
      return InvalidArgumentError(StrCat("filter must be 3-dimensional: ", filter.ToString()));
    }
    if (input.dim(3) != filter.dim(2)) {
      return InvalidArgumentError(
          StrCat("input and filter must have the same depth: ", input.dim(3), " vs ", filter.dim(2)));
    }
    Dilation dilation = {.batch = input.dim(0), .depth = input.dim(3)};
    WEIR_ASSIGN_OR_RETURN(dilation.rows, WindowOf(input.dim(1), filter.dim(0), 1));
    WEIR_ASSIGN_OR_RETURN(dilation.columns, WindowOf(input.dim(2), filter.dim(1), 2));
    return dilation;
  }

 private:
  static absl::StatusOr<std::vector<int64_t>> Read(const KernelConstruction& construction, const char* attr,
                                                   absl::string_view name) {
    const auto& values = construction.attr<std::vector<int64_t>>(attr);
    if (values.size() == 4 && values[0] == 1 && values[3] == 1) return values;
    return InvalidArgumentError(StrCat(name, " is only supported across spatial dimensions: attr ", attr,
                                       " is [", absl::StrJoin(values, ","), "]"));
  }

  absl::StatusOr<Window> WindowOf(int64_t image, int64_t filter, int axis) const {
    WEIR_ASSIGN_OR_RETURN(const WindowExtent extent,
                          SlideWindow(image, filter, strides_[axis], rates_[axis], padding_));
    return Window{image, filter, strides_[axis], rates_[axis], extent.size, extent.padding_before};
  }

  std::vector<int64_t> strides_, rates_;
  std::string padding_;
};

// The largest sum of a window, and where it is.
template <typename T>
struct Largest {
  T value = Lowest<T>();
  int64_t pixel = 0;   // of the image, counted in rows
  int64_t weight = 0;  // of the filter
};

// `image` and `filter` at the channel. Where no sum exceeds the lowest number, as of infinities, of NaN and
// of zeros without sign, TensorFlow takes the pixel that the window begins at, or the image if that is later,
// and the filter's first weight.
template <typename T>
Largest<T> LargestOf(const Dilation& d, const T* image, const T* filter, int64_t y, int64_t x) {
  Largest<T> largest;
  largest.pixel = d.rows.First(y) * d.columns.image + d.columns.First(x);
  for (int64_t i = 0; i < d.rows.filter; ++i) {
    const int64_t row = d.rows.At(y, i);
    if (!d.rows.Contains(row)) continue;
    for (int64_t j = 0; j < d.columns.filter; ++j) {
      const int64_t column = d.columns.At(x, j);
      if (!d.columns.Contains(column)) continue;
      const int64_t pixel = row * d.columns.image + column, weight = i * d.columns.filter + j;
      const T sum = Sum(image[pixel * d.depth], filter[weight * d.depth]);
      if (sum > largest.value) largest = {sum, pixel, weight};
    }
  }
  return largest;
}

template <typename T>
class Dilation2D final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const DilationAttrs attrs, DilationAttrs::Of(construction));
    return std::make_unique<Dilation2D>(attrs);
  }
  explicit Dilation2D(const DilationAttrs& attrs) : attrs_(attrs) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &input = context.input(0), &filter = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Dilation d, attrs_.Slide(input.shape(), filter.shape()));
    WEIR_RETURN_IF_ERROR(Shape::FromDims({d.batch, d.rows.size, d.columns.size, d.depth}).status());
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, d.OutputShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T *const from = input.flat<T>().data(), *const weights = filter.flat<T>().data();
    T* const to = output->flat<T>().data();
    const int64_t image_elements = d.rows.image * d.columns.image * d.depth;
    const int64_t row_elements = d.columns.size * d.depth;
    context.threads().ParallelFor(
        d.batch * d.rows.size,
        kTermCost * static_cast<double>(row_elements) * static_cast<double>(d.rows.filter * d.columns.filter),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* const image = from + i / d.rows.size * image_elements;
            for (int64_t k = 0; k < row_elements && !context.cancellation().is_cancelled(); ++k) {
              to[i * row_elements + k] =
                  LargestOf(d, image + k % d.depth, weights + k % d.depth, i % d.rows.size, k / d.depth)
                      .value;
            }
          }
        });
    return context.cancellation().reason();
  }

 private:
  const DilationAttrs attrs_;
};

// The gradient for the image, or for the filter.
template <typename T, bool of_filter>
class Dilation2DBackprop final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const DilationAttrs attrs, DilationAttrs::Of(construction));
    return std::make_unique<Dilation2DBackprop>(attrs);
  }
  explicit Dilation2DBackprop(const DilationAttrs& attrs) : attrs_(attrs) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &input = context.input(0), &filter = context.input(1), &gradients = context.input(2);
    WEIR_ASSIGN_OR_RETURN(const Dilation d, attrs_.Slide(input.shape(), filter.shape()));
    if (gradients.shape().rank() != 4) {
      return InvalidArgumentError(StrCat("out_backprop must be 4-dimensional", gradients.shape().ToString()));
    }
    const auto wanted = Shape::FromDims({d.batch, d.rows.size, d.columns.size, d.depth});
    if (!wanted.ok() || gradients.shape() != *wanted) {
      return InvalidArgumentError(
          StrCat("out_backprop has incompatible size. It is ", gradients.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, of_filter ? filter.shape() : input.shape()));
    const absl::Span<T> to = output->flat<T>();
    std::fill(to.begin(), to.end(), T(0));
    if (to.empty() || gradients.num_elements() == 0) return absl::OkStatus();
    const T *const from = input.flat<T>().data(), *const weights = filter.flat<T>().data();
    const T* gradient = gradients.flat<T>().data();
    const int64_t image_elements = d.rows.image * d.columns.image * d.depth;
    for (int64_t i = 0; i < d.batch; ++i) {
      for (int64_t y = 0; y < d.rows.size; ++y) {
        for (int64_t k = 0; k < d.columns.size * d.depth; ++k, ++gradient) {
          if (context.cancellation().is_cancelled()) return context.cancellation().reason();
          const int64_t channel = k % d.depth;
          const Largest<T> largest =
              LargestOf(d, from + i * image_elements + channel, weights + channel, y, k / d.depth);
          const int64_t at =
              of_filter ? largest.weight * d.depth : i * image_elements + largest.pixel * d.depth;
          to[at + channel] = Sum(to[at + channel], *gradient);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const DilationAttrs attrs_;
};

template <typename T>
using BackpropInput = Dilation2DBackprop<T, false>;
template <typename T>
using BackpropFilter = Dilation2DBackprop<T, true>;

}  // namespace

void RegisterDilationKernels(DeviceKernels& kernels) {
  const auto types = Types<float, double, Half, Bfloat16, uint8_t, int8_t, uint16_t, int16_t, uint32_t,
                           int32_t, uint64_t, int64_t>("T");
  kernels.Add<Dilation2D>("Dilation2D", types);
  kernels.Add<BackpropInput>("Dilation2DBackpropInput", types);
  kernels.Add<BackpropFilter>("Dilation2DBackpropFilter", types);
}

}  // namespace weir
