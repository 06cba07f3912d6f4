// Ops that count how often integers occur, in a whole tensor or in each of its rows, and that sort numbers
// into bins.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {  // wraps around
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

// ---- DenseBincount, SparseBincount, RaggedBincount ----

// What the three have in common: how long a row of counts is, and what an integer adds to its count.
template <typename I, typename T>
class Counts {
 public:
  // Inputs `size`, `weights` and attr binary_output. InvalidArgument when they do not fit the integers.
  static absl::StatusOr<Counts> Read(const Tensor& size, const Tensor& weights, const Tensor& integers,
                                     bool binary) {
    if (!size.shape().is_scalar()) {
      return absl::InvalidArgumentError(absl::StrCat("Shape must be rank 0 but is rank ", size.shape().rank(),
                                                     ": size is ", size.shape().ToString()));
    }
    const I length = size.scalar<I>();
    if (length < 0)
      return absl::InvalidArgumentError(absl::StrCat("size (", length, ") must be non-negative"));
    if (weights.num_elements() != 0 && weights.shape() != integers.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it "
                       "acts as all weights equal to 1. Received ",
                       weights.shape().ToString(), " for integers of ", integers.shape().ToString()));
    }
    return Counts(length, weights, integers, binary);
  }

  int64_t length() const { return length_; }

  // Counts integer `i` of the input in a row. InvalidArgument for a negative one; those beyond the row are
  // left out.
  absl::Status Add(int64_t i, T* row) const {
    const I value = integers_[i];
    if (value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input arr must be non-negative! Element ", i, " is ", value));
    }
    if (value >= length_) return absl::OkStatus();
    if (binary_) {
      row[value] = T(1);
    } else {
      row[value] = Sum(row[value], weights_.empty() ? T(1) : weights_[i]);
    }
    return absl::OkStatus();
  }

 private:
  Counts(I length, const Tensor& weights, const Tensor& integers, bool binary)
      : length_(length), weights_(weights.flat<T>()), integers_(integers.flat<I>()), binary_(binary) {}

  const I length_;
  const absl::Span<const T> weights_;
  const absl::Span<const I> integers_;
  const bool binary_;
};

// There may be far more counts than integers: clears them while the step is wanted.
template <typename T>
absl::Status Clear(const KernelContext& context, absl::Span<T> counts) {
  constexpr size_t kBetweenQuestions = 1 << 20;
  for (size_t begin = 0; begin < counts.size(); begin += kBetweenQuestions) {
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    const absl::Span<T> part = counts.subspan(begin, kBetweenQuestions);
    std::fill(part.begin(), part.end(), T(0));
  }
  return absl::OkStatus();
}

// Zeros of [length], or [rows, length].
template <typename T>
absl::StatusOr<T*> AllocateCounts(KernelContext& context, absl::Span<const int64_t> dims) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  const absl::Span<T> counts = output->flat<T>();
  WEIR_RETURN_IF_ERROR(Clear(context, counts));
  return counts.data();
}

template <typename I, typename T>
class DenseBincount final : public Kernel {
 public:
  explicit DenseBincount(const KernelConstruction& construction)
      : binary_(construction.attr<bool>("binary_output")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Shape& shape = input.shape();
    if (shape.rank() > 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("Shape must be at most rank 2 but is rank ", shape.rank()));
    }
    WEIR_ASSIGN_OR_RETURN(const auto counts,
                          (Counts<I, T>::Read(context.input(1), context.input(2), input, binary_)));
    Dims dims;
    if (shape.rank() == 2) dims.push_back(shape.dim(0));
    dims.push_back(counts.length());
    WEIR_ASSIGN_OR_RETURN(T * output, AllocateCounts<T>(context, dims));
    const int64_t per_row = shape.rank() == 2 ? shape.dim(1) : input.num_elements();
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      WEIR_RETURN_IF_ERROR(counts.Add(i, output + i / per_row * counts.length()));
    }
    return absl::OkStatus();
  }

 private:
  const bool binary_;
};

absl::Status CheckSparse(const Tensor& indices, const Tensor& values, const Tensor& dense_shape) {
  if (indices.shape().rank() != 2 || values.shape().rank() != 1 || dense_shape.shape().rank() != 1 ||
      dense_shape.num_elements() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a sparse tensor is indices [n,rank], values [n] and dense_shape [rank], not ",
        indices.shape().ToString(), ", ", values.shape().ToString(), ", ", dense_shape.shape().ToString()));
  }
  if (indices.shape().dim(0) != values.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Number of elements in indices (", indices.shape().dim(0),
                                                   ") and values (", values.num_elements(),
                                                   ") do not match"));
  }
  const int64_t rank = dense_shape.num_elements();
  if (indices.shape().dim(1) != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("Index rank (", indices.shape().dim(1), ") and shape rank (", rank, ") do not match"));
  }
  const auto dims = dense_shape.flat<int64_t>();
  const auto at = indices.flat<int64_t>();
  for (int64_t i = 0; i < static_cast<int64_t>(at.size()); ++i) {
    if (at[i] >= 0 && at[i] < dims[i % rank]) continue;
    return absl::InvalidArgumentError(absl::StrCat("Sparse index tuple indices[", i / rank,
                                                   ", :] is out of bounds: dimension ", i % rank, " is ",
                                                   at[i], ", the shape has ", dims[i % rank]));
  }
  for (const int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("dense_shape has a dimension of ", dim));
  }
  return absl::OkStatus();
}

// Of the values of a sparse vector, or of each row of a sparse tensor of more dimensions.
template <typename I, typename T>
class SparseBincount final : public Kernel {
 public:
  explicit SparseBincount(const KernelConstruction& construction)
      : binary_(construction.attr<bool>("binary_output")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(1);
    const Tensor& dense_shape = context.input(2);
    WEIR_RETURN_IF_ERROR(CheckSparse(indices, values, dense_shape));
    WEIR_ASSIGN_OR_RETURN(const auto counts,
                          (Counts<I, T>::Read(context.input(3), context.input(4), values, binary_)));
    const int64_t rank = dense_shape.num_elements();
    Dims dims;
    if (rank > 1) dims.push_back(dense_shape.flat<int64_t>()[0]);
    dims.push_back(counts.length());
    WEIR_ASSIGN_OR_RETURN(T * output, AllocateCounts<T>(context, dims));
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t row = rank > 1 ? indices.flat<int64_t>()[i * rank] : 0;
      WEIR_RETURN_IF_ERROR(counts.Add(i, output + row * counts.length()));
    }
    return absl::OkStatus();
  }

 private:
  const bool binary_;
};

// Precondition: there are splits.
absl::Status CheckSplits(absl::Span<const int64_t> splits, int64_t num_values) {
  if (splits[0] != 0) {
    return absl::InvalidArgumentError(absl::StrCat("Splits must start with 0, not with ", splits[0]));
  }
  if (splits.back() != num_values) {
    return absl::InvalidArgumentError(absl::StrCat("Splits must end with the number of values, got ",
                                                   splits.back(), " instead of ", num_values));
  }
  return absl::OkStatus();
}

template <typename I, typename T>
class RaggedBincount final : public Kernel {
 public:
  explicit RaggedBincount(const KernelConstruction& construction)
      : binary_(construction.attr<bool>("binary_output")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(1);
    if (context.input(0).shape().rank() != 1 || context.input(0).num_elements() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Splits must be non-empty, a vector, not ", context.input(0).shape().ToString()));
    }
    const auto splits = context.input(0).flat<int64_t>();
    WEIR_RETURN_IF_ERROR(CheckSplits(splits, values.num_elements()));
    WEIR_ASSIGN_OR_RETURN(const auto counts,
                          (Counts<I, T>::Read(context.input(2), context.input(3), values, binary_)));
    const auto rows = static_cast<int64_t>(splits.size()) - 1;
    WEIR_ASSIGN_OR_RETURN(T * output, AllocateCounts<T>(context, Dims{rows, counts.length()}));
    int64_t row = 0;
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      // The last split is beyond every value.
      while (i >= splits[row + 1]) ++row;
      WEIR_RETURN_IF_ERROR(counts.Add(i, output + row * counts.length()));
    }
    return absl::OkStatus();
  }

 private:
  const bool binary_;
};

// ---- DenseCountSparseOutput, SparseCountSparseOutput, RaggedCountSparseOutput ----

// What the three have in common: their attrs, and the sparse tensor of the counts that are not 0.
template <typename I, typename T>
class SparseCounts {
 public:
  explicit SparseCounts(const KernelConstruction& construction)
      : shortest_(construction.attr<int64_t>("minlength")),
        longest_(construction.attr<int64_t>("maxlength")),
        binary_(construction.attr<bool>("binary_output")) {}

  // Counts integer i in row `row_of(i)`, or adds up its weight; without `rows`, in the one row of a vector of
  // counts. InvalidArgument for a negative integer; those from maxlength on are left out.
  template <typename RowOf>
  absl::Status Give(KernelContext& context, const Tensor& integers, const Tensor& weights,
                    std::optional<int64_t> rows, RowOf row_of) const {
    if (weights.num_elements() != 0 && weights.shape() != integers.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Weights and values must have the same shape. Weight shape: ", weights.shape().ToString(),
          "; values shape: ", integers.shape().ToString()));
    }
    std::vector<Counted> counted;
    counted.reserve(integers.num_elements());
    int64_t largest = 0;
    for (int64_t i = 0; i < integers.num_elements(); ++i) {
      const int64_t value = integers.flat<I>()[i];
      if (value < 0) return absl::InvalidArgumentError("Input values must all be non-negative");
      if (longest_ >= 0 && value >= longest_) continue;
      largest = std::max(largest, value);
      counted.push_back({row_of(i), value, weights.num_elements() == 0 ? T(1) : weights.flat<T>()[i]});
    }
    const int64_t length =
        longest_ >= 0 ? longest_
                      : std::max(shortest_, largest + (largest < std::numeric_limits<int64_t>::max()));
    Merge(counted);
    return Write(context, counted, rows, length);
  }

 private:
  struct Counted {
    int64_t row, value;
    T count;
    bool IsBeside(const Counted& other) const { return row == other.row && value == other.value; }
  };

  // Sorts, and keeps one of each; weights are added up in the order of the input.
  void Merge(std::vector<Counted>& counted) const {
    std::stable_sort(counted.begin(), counted.end(), [](const Counted& a, const Counted& b) {
      return a.row != b.row ? a.row < b.row : a.value < b.value;
    });
    size_t kept = 0;
    for (const Counted& each : counted) {
      if (kept > 0 && counted[kept - 1].IsBeside(each)) {
        counted[kept - 1].count = Sum(counted[kept - 1].count, each.count);
      } else {
        counted[kept++] = each;
      }
    }
    counted.resize(kept);
  }

  absl::Status Write(KernelContext& context, const std::vector<Counted>& counted, std::optional<int64_t> rows,
                     int64_t length) const {
    const auto count = static_cast<int64_t>(counted.size());
    const int rank = rows ? 2 : 1;
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count, rank})));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({count})));
    WEIR_ASSIGN_OR_RETURN(Tensor * dims, context.AllocateOutput(2, Shape({rank})));
    int64_t* at = indices->flat<int64_t>().data();
    for (int64_t i = 0; i < count; ++i) {
      if (rows) *at++ = counted[i].row;
      *at++ = counted[i].value;
      values->flat<T>()[i] = binary_ ? T(1) : counted[i].count;
    }
    if (rows) dims->flat<int64_t>()[0] = *rows;
    dims->flat<int64_t>()[rank - 1] = length;
    return absl::OkStatus();
  }

  const int64_t shortest_, longest_;  // -1: none
  const bool binary_;
};

template <typename I, typename T>
class DenseCountSparseOutput final : public Kernel {
 public:
  explicit DenseCountSparseOutput(const KernelConstruction& construction) : counts_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Shape& shape = input.shape();
    if (shape.rank() != 1 && shape.rank() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input must be a 1 or 2-dimensional tensor. Got: ", shape.ToString()));
    }
    if (shape.rank() == 1) {
      return counts_.Give(context, input, context.input(1), std::nullopt, [](int64_t) { return 0; });
    }
    if (shape.dim(0) == 0) return absl::InvalidArgumentError("Invalid input: Shapes dimension cannot be 0.");
    const int64_t per_row = shape.dim(1);
    return counts_.Give(context, input, context.input(1), shape.dim(0),
                        [per_row](int64_t i) { return i / per_row; });
  }

 private:
  const SparseCounts<I, T> counts_;
};

template <typename I, typename T>
class SparseCountSparseOutput final : public Kernel {
 public:
  explicit SparseCountSparseOutput(const KernelConstruction& construction) : counts_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(1);
    const Tensor& dense_shape = context.input(2);
    WEIR_RETURN_IF_ERROR(CheckSparse(indices, values, dense_shape));
    const auto at = indices.flat<int64_t>();
    const int64_t rank = dense_shape.num_elements();
    if (rank == 1) {
      return counts_.Give(context, values, context.input(3), std::nullopt, [](int64_t) { return 0; });
    }
    return counts_.Give(context, values, context.input(3), dense_shape.flat<int64_t>()[0],
                        [at, rank](int64_t i) { return at[i * rank]; });
  }

 private:
  const SparseCounts<I, T> counts_;
};

template <typename I, typename T>
class RaggedCountSparseOutput final : public Kernel {
 public:
  explicit RaggedCountSparseOutput(const KernelConstruction& construction) : counts_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(1);
    const auto splits = context.input(0).flat<int64_t>();
    if (splits.size() < 2) {
      return absl::InvalidArgumentError("Must provide at least 2 elements for the splits argument");
    }
    WEIR_RETURN_IF_ERROR(CheckSplits(splits, values.num_elements()));
    // The last split is beyond every value.
    return counts_.Give(context, values, context.input(2), static_cast<int64_t>(splits.size()) - 1,
                        [splits, row = int64_t{0}](int64_t i) mutable {
                          while (i >= splits[row + 1]) ++row;
                          return row;
                        });
  }

 private:
  const SparseCounts<I, T> counts_;
};

// ---- Bucketize, HistogramFixedWidth ----

// The number of boundaries that are not above x. NaN is above all; with a boundary of NaN, what TensorFlow's
// search finds.
template <typename T>
class Bucketize final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& boundaries = construction.attr<std::vector<float>>("boundaries");
    if (!std::is_sorted(boundaries.begin(), boundaries.end())) {
      return absl::InvalidArgumentError("Expected sorted boundaries");
    }
    return std::make_unique<Bucketize>(boundaries);
  }

  explicit Bucketize(std::vector<float> boundaries) : boundaries_(std::move(boundaries)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    const T* x = input.flat<T>().data();
    int32_t* bucket = output->flat<int32_t>().data();
    context.threads().ParallelFor(input.num_elements(), 10, [&, x, bucket](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto above = std::upper_bound(boundaries_.begin(), boundaries_.end(), x[i],
                                            [](T value, float boundary) { return value < boundary; });
        bucket[i] = static_cast<int32_t>(above - boundaries_.begin());
      }
    });
    return absl::OkStatus();
  }

 private:
  const std::vector<float> boundaries_;
};

// a - b of a >= b, rounded once.
template <typename T>
double Distance(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<double>(static_cast<Unsigned>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b)));
  } else {
    return static_cast<double>(a - b);
  }
}

template <typename T, typename Out>
class HistogramFixedWidth final : public Kernel {
 public:
  explicit HistogramFixedWidth(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(0);
    const Tensor& range = context.input(1);
    const Tensor& bins = context.input(2);
    if (range.shape() != Shape({2})) {
      return absl::InvalidArgumentError(
          absl::StrCat("value_range should be a vector of 2 elements. It is ", range.shape().ToString()));
    }
    if (!bins.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("nbins should be a scalar. It is ", bins.shape().ToString()));
    }
    const T low = range.flat<T>()[0], high = range.flat<T>()[1];
    if (!(low < high)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "value_range should satisfy value_range[0] < value_range[1], but got '[", low, ", ", high, "]'"));
    }
    const int32_t count = bins.scalar<int32_t>();
    if (count <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("nbins should be a positive number, but got '", count, "'"));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({count})));
    const absl::Span<Out> counts = output->flat<Out>();
    WEIR_RETURN_IF_ERROR(Clear(context, counts));
    const double step = Distance(high, low) / static_cast<double>(count);
    for (const T value : values.flat<T>()) {
      if (value != value) return absl::InvalidArgumentError("Histogram values must not contain NaN");
      const double place = Distance(std::max(value, low), low) / step;
      // Not a number where a range of floats is wider than floats are.
      const auto bin = place >= count ? count - 1 : place > 0 ? static_cast<int32_t>(place) : 0;
      ++counts[bin];
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterCountingKernels(DeviceKernels& kernels) {
  const auto integers = Types<int32_t, int64_t>("Tidx");
  const auto counts = Types<int32_t, int64_t, float, double>("T");
  kernels.Add<DenseBincount>("DenseBincount", integers, counts);
  kernels.Add<SparseBincount>("SparseBincount", integers, counts);
  kernels.Add<RaggedBincount>("RaggedBincount", integers, counts);
  const auto values = Types<int32_t, int64_t>("T");
  const auto sparse_counts = Types<int32_t, int64_t, float, double>("output_type");
  kernels.Add<DenseCountSparseOutput>("DenseCountSparseOutput", values, sparse_counts);
  kernels.Add<SparseCountSparseOutput>("SparseCountSparseOutput", values, sparse_counts);
  kernels.Add<RaggedCountSparseOutput>("RaggedCountSparseOutput", values, sparse_counts);
  kernels.Add<Bucketize>("Bucketize", counts);
  kernels.Add<HistogramFixedWidth>("HistogramFixedWidth", counts, Types<int32_t, int64_t>("dtype"));
}

}  // namespace weir
