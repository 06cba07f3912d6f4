// FractionalMaxPool, FractionalAvgPool and their gradients: TensorFlow's windows for the same seeds.
//
// B. Graham, "Fractional Max-Pooling" (2014), arXiv:1412.6071: windows of k and k + 1 rows in a random order,
// or where multiples of their mean size, moved by one random number, end. A window is from one element of its
// sequence up to the next; overlapping ones have the first row of the next window too.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/cpu/random/shuffle.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 1;  // nanoseconds of an element on one core

using Sequence = std::vector<int64_t>;  // where windows begin, and where the last one ends

// Precondition: 0 < count <= length.
absl::StatusOr<Sequence> DrawSequence(int64_t length, int64_t count, bool is_pseudo_random, Philox& bits,
                                      const Cancellation& cancellation) {
  const int64_t least = length / count, rest = length % count;
  Sequence sequence(count + 1, least);
  if (rest == 0) {
    for (int64_t i = 0; i <= count; ++i) sequence[i] = i * least;
    return sequence;
  }
  Philox own = bits;
  if (is_pseudo_random) {
    bits.Skip(1);
    Words words(own);
    const double mean = static_cast<double>(length) / static_cast<double>(count);
    // No window may be larger than k + 1 or smaller than k: the first says the one limit, the last the other.
    const double most =
        std::min(static_cast<double>(least + 2) / mean - 1,
                 static_cast<double>(length + 1 - least) / mean - static_cast<double>(count - 1));
    const uint32_t high = words.Next(), low = words.Next();
    const double moved = UniformDouble(high, low) * most;
    sequence[0] = 0;
    sequence[count] = length;
    // Rounding leaves no window empty, and none outside.
    for (int64_t i = 1; i < count; ++i) {
      const int64_t end = static_cast<int64_t>(std::ceil(mean * (static_cast<double>(i) + moved))) - 1;
      sequence[i] = std::clamp(end, sequence[i - 1] + 1, length - (count - i));
    }
    return sequence;
  }
  bits.Skip(static_cast<uint64_t>(count + 3) / 4);
  for (int64_t i = 0; i < rest; ++i) ++sequence[i];
  WEIR_RETURN_IF_ERROR(Shuffle(own, absl::MakeSpan(sequence).first(count), cancellation));
  int64_t begin = 0;
  for (int64_t& size : sequence) begin += std::exchange(size, begin);
  return sequence;
}

absl::Status SetSequence(KernelContext& context, int output, const Sequence& sequence) {
  WEIR_ASSIGN_OR_RETURN(Tensor * tensor,
                        context.AllocateOutput(output, Shape({static_cast<int64_t>(sequence.size())})));
  std::copy(sequence.begin(), sequence.end(), tensor->flat<int64_t>().begin());
  return absl::OkStatus();
}

// Images [batch, rows, columns, channels] and the windows that they fall into.
struct Windows {
  int64_t batch, rows, columns, channels;
  Sequence row_ends, column_ends;
  bool overlap;

  int64_t out_rows() const { return static_cast<int64_t>(row_ends.size()) - 1; }
  int64_t out_columns() const { return static_cast<int64_t>(column_ends.size()) - 1; }
  int64_t row_size() const { return columns * channels; }
  int64_t out_row_size() const { return out_columns() * channels; }
  int64_t size() const { return rows * row_size(); }
  int64_t out_size() const { return out_rows() * out_row_size(); }
  double cost() const { return kCost * static_cast<double>(size()); }

  std::pair<int64_t, int64_t> Rows(int64_t i) const { return Range(row_ends, i, rows); }
  std::pair<int64_t, int64_t> Columns(int64_t i) const { return Range(column_ends, i, columns); }

 private:
  std::pair<int64_t, int64_t> Range(const Sequence& sequence, int64_t i, int64_t length) const {
    const int64_t end = std::min(sequence[i + 1], length);  // a given sequence may end anywhere
    return {sequence[i], overlap && end < length ? end + 1 : end};
  }
};

// Calls visit(index of an output's first channel, of an input's first channel, elements of the window) for
// every element of every window of image `image`.
template <typename Visit>
void ForEachElement(const Windows& windows, int64_t image, const Visit& visit) {
  for (int64_t r = 0; r < windows.out_rows(); ++r) {
    const auto [top, bottom] = windows.Rows(r);
    for (int64_t c = 0; c < windows.out_columns(); ++c) {
      const auto [left, right] = windows.Columns(c);
      const int64_t out = image * windows.out_size() + r * windows.out_row_size() + c * windows.channels;
      for (int64_t y = top; y < bottom; ++y) {
        const int64_t row = image * windows.size() + y * windows.row_size();
        for (int64_t x = left; x < right; ++x)
          visit(out, row + x * windows.channels, (bottom - top) * (right - left));
      }
    }
  }
}

// Sums of integers wrap around.
template <typename T>
using SumOf = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

// ---- Pooling ----

template <typename T>
void MaxOf(const Windows& windows, int64_t image, const T* in, T* out) {
  std::fill_n(out + image * windows.out_size(), windows.out_size(), std::numeric_limits<T>::lowest());
  ForEachElement(windows, image, [&](int64_t to, int64_t from, int64_t) {
    for (int64_t c = 0; c < windows.channels; ++c) out[to + c] = std::max(out[to + c], in[from + c]);
  });
}

// The mean of integers loses what is behind the point.
template <typename T>
void MeanOf(const Windows& windows, int64_t image, const T* in, T* out) {
  std::fill_n(out + image * windows.out_size(), windows.out_size(), T(0));
  ForEachElement(windows, image, [&](int64_t to, int64_t from, int64_t) {
    for (int64_t c = 0; c < windows.channels; ++c)
      out[to + c] = static_cast<T>(static_cast<SumOf<T>>(out[to + c]) + static_cast<SumOf<T>>(in[from + c]));
  });
  for (int64_t r = 0; r < windows.out_rows(); ++r) {
    const auto [top, bottom] = windows.Rows(r);
    for (int64_t c = 0; c < windows.out_row_size(); ++c) {
      const auto [left, right] = windows.Columns(c / windows.channels);
      out[image * windows.out_size() + r * windows.out_row_size() + c] /=
          static_cast<T>((bottom - top) * (right - left));
    }
  }
}

template <typename T, void (*pool)(const Windows&, int64_t, const T*, T*)>
class FractionalPool final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& ratios = construction.attr<std::vector<float>>("pooling_ratio");
    if (ratios.size() != 4) {
      return absl::InvalidArgumentError(
          absl::StrCat("pooling_ratio field must specify 4 dimensions, has ", ratios.size()));
    }
    for (const float ratio : ratios) {
      if (ratio >= 1) continue;
      return absl::InvalidArgumentError(absl::StrCat("pooling_ratio cannot be smaller than 1, got: ", ratio));
    }
    if (ratios[0] != 1 || ratios[3] != 1) {
      return absl::UnimplementedError(
          absl::StrCat("Fractional pooling is not yet supported on the batch nor channel dimension, "
                       "pooling_ratio is ",
                       absl::StrJoin(ratios, ", ")));
    }
    const bool is_deterministic = construction.attr<bool>("deterministic");
    const auto seed = construction.attr<int64_t>("seed"), seed2 = construction.attr<int64_t>("seed2");
    if (!is_deterministic && (seed != 0 || seed2 != 0))
      return absl::InvalidArgumentError("Both seed and seed2 should be 0 if deterministic is false.");
    return std::make_unique<FractionalPool>(construction, ratios, RandomStream(seed, seed2).ReserveBlocks(0));
  }

  // All steps of a deterministic node begin with the same bits.
  FractionalPool(const KernelConstruction& construction, std::vector<float> ratios, Philox bits)
      : ratios_(std::move(ratios)),
        bits_(bits),
        is_deterministic_(construction.attr<bool>("deterministic")),
        is_pseudo_random_(construction.attr<bool>("pseudo_random")),
        overlaps_(construction.attr<bool>("overlapping")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Shape& shape = input.shape();
    WEIR_RETURN_IF_ERROR(CheckShape(shape));
    // Quotients are TensorFlow's floats. Those of long axes may be rounded up to more than there is.
    const auto counted = [&](int axis) {
      const float quotient = static_cast<float>(shape.dim(axis)) / ratios_[axis];
      return std::clamp<int64_t>(static_cast<int64_t>(std::floor(quotient)), 1, shape.dim(axis));
    };
    Philox bits = is_deterministic_ ? bits_ : RandomStream(0, 0).ReserveBlocks(0);
    Windows windows = {shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3), {}, {}, overlaps_};
    WEIR_ASSIGN_OR_RETURN(windows.row_ends, DrawSequence(shape.dim(1), counted(1), is_pseudo_random_, bits,
                                                         context.cancellation()));
    WEIR_ASSIGN_OR_RETURN(windows.column_ends, DrawSequence(shape.dim(2), counted(2), is_pseudo_random_, bits,
                                                            context.cancellation()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, Shape({windows.batch, windows.out_rows(),
                                                           windows.out_columns(), windows.channels})));
    WEIR_RETURN_IF_ERROR(SetSequence(context, 1, windows.row_ends));
    WEIR_RETURN_IF_ERROR(SetSequence(context, 2, windows.column_ends));
    context.threads().ParallelFor(windows.batch, windows.cost(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pool(windows, i, input.flat<T>().data(), output->flat<T>().data());
    });
    return absl::OkStatus();
  }

 private:
  absl::Status CheckShape(const Shape& shape) const {
    if (shape.rank() != 4) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor_in must be 4-dimensional, is ", shape.ToString()));
    }
    for (int i = 0; i < 4; ++i) {
      if (static_cast<float>(shape.dim(i)) >= ratios_[i]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Pooling ratio is higher than input dimension size for dimension ", i,
                       ". Input dim size: ", shape.dim(i), " pooling ratio: ", ratios_[i]));
    }
    return absl::OkStatus();
  }

  const std::vector<float> ratios_;
  const Philox bits_;
  const bool is_deterministic_, is_pseudo_random_, overlaps_;
};

template <typename T>
using FractionalMaxPool = FractionalPool<T, MaxOf<T>>;
template <typename T>
using FractionalAvgPool = FractionalPool<T, MeanOf<T>>;

// ---- Gradients ----

// As many windows as `count` has, out of a sequence that may be longer: that of input `input`, of the rows or
// the columns.
absl::StatusOr<Sequence> ReadSequence(const KernelContext& context, int input, bool is_of_rows, int64_t count,
                                      int64_t length) {
  const Tensor& tensor = context.input(input);
  if (tensor.shape().rank() != 1 || tensor.num_elements() <= count) {
    return absl::InvalidArgumentError(
        absl::StrCat(is_of_rows ? "row" : "col", "_pooling_sequence must be a vector of at least ", count + 1,
                     " elements for the shape of out_backprop, is ", tensor.shape().ToString()));
  }
  const absl::Span<const int64_t> given = tensor.flat<int64_t>().first(count + 1);
  for (int64_t i = 0; i <= count; ++i) {
    const bool is_after = i == 0 || given[i - 1] < given[i];
    if (given[i] >= 0 && is_after && (i == count || given[i] < length)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(is_of_rows ? "Row" : "Column",
                     " sequence tensor values must not be negative, must increase, and windows begin in [0, ",
                     length, "), got ", tensor.ToString(16)));
  }
  return Sequence(given.begin(), given.end());
}

// Windows of images of `shape`, from a gradient and inputs `first_sequence` and the next.
absl::StatusOr<Windows> ReadWindows(const KernelContext& context, const Shape& shape, const Shape& gradient,
                                    int first_sequence, bool overlaps) {
  if (shape.rank() != 4 || gradient.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("the input and out_backprop must be 4-dimensional, are ",
                                                   shape.ToString(), " and ", gradient.ToString()));
  }
  Windows windows = {shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3), {}, {}, overlaps};
  WEIR_ASSIGN_OR_RETURN(windows.row_ends,
                        ReadSequence(context, first_sequence, true, gradient.dim(1), shape.dim(1)));
  WEIR_ASSIGN_OR_RETURN(windows.column_ends,
                        ReadSequence(context, first_sequence + 1, false, gradient.dim(2), shape.dim(2)));
  if (gradient.dim(0) == shape.dim(0) && gradient.dim(3) == shape.dim(3)) return windows;
  return absl::InvalidArgumentError(
      absl::StrCat("the input and out_backprop must have equal batches and channels, are ", shape.ToString(),
                   " and ", gradient.ToString()));
}

// The first of the largest elements of a window gets what flows into it.
template <typename T>
class FractionalMaxPoolGrad final : public Kernel {
 public:
  explicit FractionalMaxPoolGrad(const KernelConstruction& construction)
      : overlaps_(construction.attr<bool>("overlapping")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &input = context.input(0), &pooled = context.input(1), &gradient = context.input(2);
    WEIR_ASSIGN_OR_RETURN(const Windows windows,
                          ReadWindows(context, input.shape(), gradient.shape(), 3, overlaps_));
    if (pooled.shape() != gradient.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("orig_output and out_backprop must have one shape: they are ",
                       pooled.shape().ToString(), " and ", gradient.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    if (output->num_elements() == 0) return absl::OkStatus();  // however many windows there are
    WEIR_ASSIGN_OR_RETURN(Tensor winners, context.AllocateTemporary(DType::kInt64, gradient.shape()));
    const T* const x = input.flat<T>().data();
    int64_t* const at = winners.flat<int64_t>().data();
    context.threads().ParallelFor(windows.batch, 2 * windows.cost(), [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image) {
        std::fill_n(at + image * windows.out_size(), windows.out_size(), -1);
        ForEachElement(windows, image, [&](int64_t to, int64_t from, int64_t) {
          for (int64_t c = 0; c < windows.channels; ++c)
            if (at[to + c] < 0 || x[at[to + c]] < x[from + c]) at[to + c] = from + c;
        });
        T* const result = output->flat<T>().data();
        std::fill_n(result + image * windows.size(), windows.size(), T(0));
        for (int64_t i = image * windows.out_size(); i < (image + 1) * windows.out_size(); ++i) {
          result[at[i]] = static_cast<T>(static_cast<SumOf<T>>(result[at[i]]) +
                                         static_cast<SumOf<T>>(gradient.flat<T>()[i]));
        }
      }
    });
    for (int64_t i = 0; i < pooled.num_elements(); ++i) {
      const T found = pooled.flat<T>()[i], wanted = x[at[i]];
      // Not a number is none of the largest, and is nothing to complain of.
      if (!(found < wanted) && !(found > wanted)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "orig_output is not what orig_input is pooled to: element ", i, " is ", found, ", not ", wanted));
    }
    return absl::OkStatus();
  }

 private:
  const bool overlaps_;
};

// Every element of a window gets an equal share of what flows into it; sums are doubles.
template <typename T>
class FractionalAvgPoolGrad final : public Kernel {
 public:
  explicit FractionalAvgPoolGrad(const KernelConstruction& construction)
      : overlaps_(construction.attr<bool>("overlapping")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& gradient = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(0), "orig_input_tensor_shape"));
    WEIR_ASSIGN_OR_RETURN(const Windows windows, ReadWindows(context, shape, gradient.shape(), 2, overlaps_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();  // however many windows there are
    WEIR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(DType::kFloat64, shape));
    double* const sum = sums.flat<double>().data();
    context.threads().ParallelFor(windows.batch, 2 * windows.cost(), [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image) {
        double* const own = sum + image * windows.size();
        std::fill_n(own, windows.size(), 0);
        ForEachElement(windows, image, [&](int64_t to, int64_t from, int64_t count) {
          for (int64_t c = 0; c < windows.channels; ++c)
            sum[from + c] += static_cast<double>(gradient.flat<T>()[to + c]) / static_cast<double>(count);
        });
        std::transform(own, own + windows.size(), output->flat<T>().data() + image * windows.size(), Rounded);
      }
    });
    return absl::OkStatus();
  }

 private:
  // Of an integer what is behind the point is lost.
  static T Rounded(double x) {
    if constexpr (std::is_integral_v<T>) {
      constexpr auto kLimit = static_cast<double>(std::numeric_limits<T>::max());
      if (!(x < kLimit)) return std::numeric_limits<T>::max();
      if (x <= -kLimit) return std::numeric_limits<T>::min();
    }
    return static_cast<T>(x);
  }

  const bool overlaps_;
};

}  // namespace

void RegisterFractionalPoolingKernels(DeviceKernels& kernels) {
  const auto types = Types<float, double, int32_t, int64_t>("T");
  kernels.Add<FractionalMaxPool>("FractionalMaxPool", types);
  kernels.Add<FractionalAvgPool>("FractionalAvgPool", types);
  kernels.Add<FractionalMaxPoolGrad>("FractionalMaxPoolGrad", types);
  kernels.Add<FractionalAvgPoolGrad>("FractionalAvgPoolGrad", types);
}

}  // namespace weir
