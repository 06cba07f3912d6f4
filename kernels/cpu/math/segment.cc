// Combining the rows of a tensor that belong to one segment: sorted, unsorted and sparse segments.
//
// A row is a slice along dimension 0 (or, with unsorted ids of a higher rank, what their dimensions leave).
// All ids and indices are checked before anything is read or written.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/widened.h"
#include "kernels/cpu/with_indices.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// ---- Reductions ----
//
// kGap: the elements of a sorted segment without rows. Start: those of an unsorted one before its first row.

struct Sum {
  static constexpr int kGap = 0;
  template <typename T>
  static T Start() {
    return T(0);
  }
  template <typename C>
  static C Combine(C a, C b) {
    return elementwise::Add()(a, b);
  }
  template <typename C>
  static C Finish(C sum, int64_t) {
    return sum;
  }
};

struct Mean : Sum {
  template <typename C>
  static C Finish(C sum, int64_t count) {
    if constexpr (std::is_integral_v<C> && std::is_signed_v<C>) {
      return static_cast<C>(static_cast<int64_t>(sum) / count);
    } else if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(count));
    } else {
      return sum / static_cast<C>(static_cast<double>(count));
    }
  }
};

struct SqrtN : Sum {
  template <typename C>
  static C Finish(C sum, int64_t count) {
    return sum / static_cast<C>(std::sqrt(static_cast<double>(count)));
  }
};

struct Prod {
  static constexpr int kGap = 1;
  template <typename T>
  static T Start() {
    return T(1);
  }
  template <typename C>
  static C Combine(C a, C b) {
    return elementwise::Mul()(a, b);
  }
  template <typename C>
  static C Finish(C product, int64_t) {
    return product;
  }
};

template <typename T>
struct Limits : std::numeric_limits<T> {};
template <>
struct Limits<Half> {
  static Half max() { return Half(65504.0f); }
  static Half lowest() { return Half(-65504.0f); }
};
template <>
struct Limits<Bfloat16> {
  static Bfloat16 max() { return Bfloat16::FromBits(0x7f7f); }
  static Bfloat16 lowest() { return Bfloat16::FromBits(0xff7f); }
};

struct Min : Sum {
  template <typename T>
  static T Start() {
    return Limits<T>::max();
  }
  template <typename C>
  static C Combine(C a, C b) {
    return a < b ? a : b;
  }
};

struct Max : Sum {
  template <typename T>
  static T Start() {
    return Limits<T>::lowest();
  }
  template <typename C>
  static C Combine(C a, C b) {
    return a > b ? a : b;
  }
};

// ---- Sorted and sparse segments ----

// Rows of a tensor of at least rank 1.
struct Rows {
  explicit Rows(const Shape& shape) : count(shape.dim(0)) {
    for (int i = 1; i < shape.rank(); ++i) size *= shape.dim(i);
  }
  int64_t count;
  int64_t size = 1;  // elements of one
};

absl::StatusOr<Shape> WithRows(const Shape& shape, int64_t count) {
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims[0] = count;
  return Shape::FromDims(dims);
}

absl::Status CheckVectors(KernelContext& context, absl::string_view data, int num_vectors) {
  if (context.input(0).shape().rank() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(data, " must be at least a vector, is a scalar"));
  }
  for (int i = 1; i <= num_vectors; ++i) {
    if (context.input(i).shape().rank() == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(i == num_vectors ? "segment_ids" : "indices",
                                                   " must be a vector, is ",
                                                   context.input(i).shape().ToString()));
  }
  if (num_vectors == 2 && context.input(1).num_elements() != context.input(2).num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("segment_ids and indices must have the same length, are ",
                                                   context.input(2).shape().ToString(), " and ",
                                                   context.input(1).shape().ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view name, const Tensor& values, int64_t limit) {
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const int64_t value = IntegerAt(values, i);
    if (value >= 0 && value < limit) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, "[", i, "] = ", value, " is not in [0, ", limit, ")"));
  }
  return absl::OkStatus();
}

// One more than the last id. Ids must be sorted and not negative.
absl::StatusOr<int64_t> CountSortedSegments(const Tensor& ids) {
  int64_t last = -1;
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    const int64_t id = IntegerAt(ids, i);
    if (id < 0)
      return absl::InvalidArgumentError(absl::StrCat("segment_ids[", i, "] = ", id, " is negative"));
    if (id < last) {
      return absl::InvalidArgumentError(
          absl::StrCat("segment ids are not increasing: segment_ids[", i, "] = ", id, " comes after ", last));
    }
    last = id;
  }
  if (last == std::numeric_limits<int64_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("segment id ", last, " is too large"));
  }
  return last + 1;
}

// The same few rows may be named very often: who computes looks after so many whether the step is wanted.
constexpr int64_t kRowsBetweenQuestions = 4096;

// Combines `count` rows, the k-th of which is row(k), into `output`, while the step is wanted. 16-bit floats
// are combined in single precision and rounded once.
template <typename T, typename Reduction, typename Row>
void CombineRows(const Cancellation& cancellation, int64_t count, int64_t size, const Row& row, T* output) {
  using C = ComputeType<T>;
  constexpr int64_t kBlock = 64;  // columns at a time
  C block[kBlock];
  for (int64_t begin = 0; begin < size && !cancellation.is_cancelled(); begin += kBlock) {
    const int64_t columns = std::min(kBlock, size - begin);
    const T* first = row(0) + begin;
    for (int64_t j = 0; j < columns; ++j) block[j] = C(first[j]);
    for (int64_t k = 1; k < count; ++k) {
      if (k % kRowsBetweenQuestions == 0 && cancellation.is_cancelled()) return;
      const T* next = row(k) + begin;
      for (int64_t j = 0; j < columns; ++j) block[j] = Reduction::template Combine<C>(block[j], C(next[j]));
    }
    for (int64_t j = 0; j < columns; ++j)
      output[begin + j] = T(Reduction::template Finish<C>(block[j], count));
  }
}

// Inputs: data, then for sparse segments indices, then segment_ids, then perhaps the number of segments.
template <typename T, typename Reduction, bool is_sparse>
absl::Status ReduceSorted(KernelContext& context) {
  const Tensor& data = context.input(0);
  const int ids_input = is_sparse ? 2 : 1;
  WEIR_RETURN_IF_ERROR(CheckVectors(context, "data", ids_input));
  const Tensor& ids = context.input(ids_input);
  const Rows rows(data.shape());
  if (is_sparse) {
    WEIR_RETURN_IF_ERROR(CheckRange("indices", context.input(1), rows.count));
  } else if (ids.num_elements() != rows.count) {
    return absl::InvalidArgumentError(absl::StrCat("segment_ids must have one element for each row: data is ",
                                                   data.shape().ToString(), ", segment_ids is ",
                                                   ids.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(int64_t num_segments, CountSortedSegments(ids));
  if (context.num_inputs() > ids_input + 1) {
    WEIR_ASSIGN_OR_RETURN(const int64_t asked, ReadInteger(context.input(ids_input + 1), "num_segments"));
    if (asked < num_segments) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_segments = ", asked, " is too few for segment id ", num_segments - 1));
    }
    num_segments = asked;
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, WithRows(data.shape(), num_segments));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  std::fill(output->flat<T>().begin(), output->flat<T>().end(), T(Reduction::kGap));

  std::vector<int64_t> begins;  // where in ids each segment that has rows begins, and the end
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    if (i == 0 || IntegerAt(ids, i) != IntegerAt(ids, i - 1)) begins.push_back(i);
  }
  const int64_t num_filled = static_cast<int64_t>(begins.size());
  if (num_filled == 0) return absl::OkStatus();
  begins.push_back(ids.num_elements());
  const T* const from = data.flat<T>().data();
  T* const to = output->flat<T>().data();
  const double cost = static_cast<double>(ids.num_elements() * rows.size) / static_cast<double>(num_filled);
  context.threads().ParallelFor(num_filled, cost, [&](int64_t begin, int64_t end) {
    for (int64_t segment = begin; segment < end; ++segment) {
      const int64_t first = begins[segment];
      const auto row = [&](int64_t k) {
        const int64_t at = is_sparse ? IntegerAt(context.input(1), first + k) : first + k;
        return from + at * rows.size;
      };
      CombineRows<T, Reduction>(context.cancellation(), begins[segment + 1] - first, rows.size, row,
                                to + IntegerAt(ids, first) * rows.size);
    }
  });
  if (context.cancellation().is_cancelled()) return context.cancellation().reason();
  return absl::OkStatus();
}

// What both forms of the gradient are given: a row of `grad` for each segment, and the rows, `num_rows` at
// most, that were looked up.
absl::StatusOr<int64_t> CheckSparseGrad(KernelContext& context, absl::string_view name) {
  WEIR_RETURN_IF_ERROR(CheckVectors(context, "grad", 2));
  WEIR_ASSIGN_OR_RETURN(const int64_t num_rows, ReadInteger(context.input(3), name));
  if (num_rows < 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be non-negative, is ", num_rows));
  }
  WEIR_RETURN_IF_ERROR(CheckRange("indices", context.input(1), num_rows));
  WEIR_RETURN_IF_ERROR(CheckRange("segment_ids", context.input(2), context.input(0).shape().dim(0)));
  return num_rows;
}

// Row row_of(i) of output 0, which has `num_rows`, gets row segment_ids[i] of the gradient, divided as the
// reduction divided.
template <typename T, typename Reduction, typename RowOf>
absl::Status AddGradientRows(KernelContext& context, int64_t num_rows, const RowOf& row_of) {
  using C = ComputeType<T>;
  const Tensor& grad = context.input(0);
  const Tensor& ids = context.input(2);
  const Rows rows(grad.shape());
  WEIR_ASSIGN_OR_RETURN(const Shape shape, WithRows(grad.shape(), num_rows));
  WEIR_ASSIGN_OR_RETURN(Tensor counts, context.AllocateTemporary(DType::kInt64, Shape({rows.count})));
  ClearElements(counts, 0, rows.count);
  for (int64_t i = 0; i < ids.num_elements(); ++i) ++counts.flat<int64_t>()[IntegerAt(ids, i)];
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput(context, *output));
  ClearElements(wide, 0, wide.num_elements());
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    const int64_t segment = IntegerAt(ids, i);
    const T* const from = grad.flat<T>().data() + segment * rows.size;
    C* const to = wide.flat<C>().data() + row_of(i) * rows.size;
    const C factor = Reduction::template Finish<C>(C(1), counts.flat<int64_t>()[segment]);
    for (int64_t j = 0; j < rows.size; ++j) to[j] += factor * C(from[j]);
  }
  Narrow(context, wide, output);
  return absl::OkStatus();
}

template <typename T, typename Reduction>
absl::Status ReduceSparseGrad(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const int64_t num_rows, CheckSparseGrad(context, "output_dim0"));
  return AddGradientRows<T, Reduction>(context, num_rows,
                                       [&](int64_t i) { return IntegerAt(context.input(1), i); });
}

// The rows that were looked up alone, each once, and which they are, in order.
template <typename T, typename Reduction>
absl::Status ReduceSparseGradOfRows(KernelContext& context) {
  WEIR_RETURN_IF_ERROR(CheckSparseGrad(context, "dense_output_dim0").status());
  const Tensor& indices = context.input(1);
  const int64_t count = indices.num_elements();
  WEIR_ASSIGN_OR_RETURN(Tensor room, context.AllocateTemporary(DType::kInt64, Shape({count})));
  const absl::Span<int64_t> sorted = room.flat<int64_t>();
  for (int64_t i = 0; i < count; ++i) sorted[i] = IntegerAt(indices, i);
  std::sort(sorted.begin(), sorted.end());
  const auto end = std::unique(sorted.begin(), sorted.end());
  const int64_t num_rows = end - sorted.begin();
  WEIR_RETURN_IF_ERROR((AddGradientRows<T, Reduction>(context, num_rows, [&](int64_t i) -> int64_t {
    return std::lower_bound(sorted.begin(), end, IntegerAt(indices, i)) - sorted.begin();
  })));
  WEIR_ASSIGN_OR_RETURN(Tensor * rows, context.AllocateOutput(1, Shape({num_rows})));
  if (indices.dtype() == DType::kInt64) {
    std::copy(sorted.begin(), end, rows->flat<int64_t>().begin());
  } else {
    std::transform(sorted.begin(), end, rows->flat<int32_t>().begin(),
                   [](int64_t row) { return static_cast<int32_t>(row); });
  }
  return absl::OkStatus();
}

// ---- Unsorted segments ----

// "segment_ids[0,3] = 7 is not in [0, 2)".
absl::Status NotInRange(const Tensor& ids, int64_t position, int64_t limit) {
  std::string at;
  int64_t rest = position;
  for (int i = ids.shape().rank() - 1; i >= 0; --i) {
    at = absl::StrCat(rest % ids.shape().dim(i), at.empty() ? "" : ",", at);
    rest /= ids.shape().dim(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("segment_ids", at.empty() ? "" : absl::StrCat("[", at, "]"),
                                                 " = ", IntegerAt(ids, position), " is not in [0, ", limit,
                                                 ")"));
}

template <typename T, typename Reduction>
absl::Status ReduceUnsorted(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& ids = context.input(1);
  WEIR_ASSIGN_OR_RETURN(const int64_t num_segments, ReadInteger(context.input(2), "num_segments"));
  const auto data_dims = data.shape().dims();
  const int ids_rank = ids.shape().rank();
  if (ids_rank > data.shape().rank() || ids.shape().dims() != data_dims.subspan(0, ids_rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.shape = ", data.shape().ToString(),
                     " does not start with segment_ids.shape = ", ids.shape().ToString()));
  }
  if (num_segments < 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_segments must be non-negative, is ", num_segments));
  }
  Dims dims = {num_segments};
  dims.insert(dims.end(), data_dims.begin() + ids_rank, data_dims.end());
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  const int64_t count = ids.num_elements();
  const int64_t bad = WithIndices(ids, [&](const auto* values) {
    return std::find_if(values, values + count, [&](int64_t id) { return id >= num_segments; }) - values;
  });
  if (bad < count) return NotInRange(ids, bad, num_segments);
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  std::fill(output->flat<T>().begin(), output->flat<T>().end(), Reduction::template Start<T>());
  const int64_t size = shape.num_elements() / num_segments;
  const T* const rows = data.flat<T>().data();
  T* const sums = output->flat<T>().data();
  WithIndices(ids, [&](const auto* values) {
    using C = ComputeType<T>;
    for (int64_t i = 0; i < count; ++i) {
      if (values[i] < 0) continue;  // dropped
      const T* const row = rows + i * size;
      T* const into = sums + values[i] * size;
      for (int64_t j = 0; j < size; ++j) into[j] = T(Reduction::template Combine<C>(C(into[j]), C(row[j])));
    }
  });
  return absl::OkStatus();
}

template <typename Reduction>
struct Sorted {
  template <typename T>
  struct Of final : Kernel {
    explicit Of(const KernelConstruction&) {}
    absl::Status Compute(KernelContext& context) override {
      return ReduceSorted<T, Reduction, false>(context);
    }
  };
};
template <typename Reduction>
struct Sparse {
  template <typename T>
  struct Of final : Kernel {
    explicit Of(const KernelConstruction&) {}
    absl::Status Compute(KernelContext& context) override {
      return ReduceSorted<T, Reduction, true>(context);
    }
  };
};
template <typename Reduction>
struct SparseGrad {
  template <typename T>
  struct Of final : Kernel {
    explicit Of(const KernelConstruction&) {}
    absl::Status Compute(KernelContext& context) override { return ReduceSparseGrad<T, Reduction>(context); }
  };
};
template <typename Reduction>
struct SparseGradOfRows {
  template <typename T>
  struct Of final : Kernel {
    explicit Of(const KernelConstruction&) {}
    absl::Status Compute(KernelContext& context) override {
      return ReduceSparseGradOfRows<T, Reduction>(context);
    }
  };
};
template <typename Reduction>
struct Unsorted {
  template <typename T>
  struct Of final : Kernel {
    explicit Of(const KernelConstruction&) {}
    absl::Status Compute(KernelContext& context) override { return ReduceUnsorted<T, Reduction>(context); }
  };
};

}  // namespace

void RegisterSegmentKernels(DeviceKernels& kernels) {
  const auto reals = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                           uint16_t, uint32_t, uint64_t>("T");
  const auto complexes = Types<std::complex<float>, std::complex<double>>("T");
  const auto floats = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<Sorted<Sum>::Of>("SegmentSum", reals);
  kernels.Add<Sorted<Sum>::Of>("SegmentSum", complexes);
  kernels.Add<Sorted<Mean>::Of>("SegmentMean", reals);
  kernels.Add<Sorted<Mean>::Of>("SegmentMean", complexes);
  kernels.Add<Sorted<Prod>::Of>("SegmentProd", reals);
  kernels.Add<Sorted<Prod>::Of>("SegmentProd", complexes);
  kernels.Add<Sorted<Min>::Of>("SegmentMin", reals);
  kernels.Add<Sorted<Max>::Of>("SegmentMax", reals);

  kernels.Add<Unsorted<Sum>::Of>("UnsortedSegmentSum", reals);
  kernels.Add<Unsorted<Sum>::Of>("UnsortedSegmentSum", complexes);
  kernels.Add<Unsorted<Prod>::Of>("UnsortedSegmentProd", reals);
  kernels.Add<Unsorted<Prod>::Of>("UnsortedSegmentProd", complexes);
  kernels.Add<Unsorted<Min>::Of>("UnsortedSegmentMin", reals);
  kernels.Add<Unsorted<Max>::Of>("UnsortedSegmentMax", reals);

  kernels.Add<Sparse<Sum>::Of>("SparseSegmentSum", reals);
  kernels.Add<Sparse<Sum>::Of>("SparseSegmentSumWithNumSegments", reals);
  kernels.Add<Sparse<Mean>::Of>("SparseSegmentMean", floats);
  kernels.Add<Sparse<Mean>::Of>("SparseSegmentMeanWithNumSegments", floats);
  kernels.Add<Sparse<SqrtN>::Of>("SparseSegmentSqrtN", floats);
  kernels.Add<Sparse<SqrtN>::Of>("SparseSegmentSqrtNWithNumSegments", floats);
  kernels.Add<SparseGrad<Sum>::Of>("SparseSegmentSumGrad", floats);
  kernels.Add<SparseGrad<Mean>::Of>("SparseSegmentMeanGrad", floats);
  kernels.Add<SparseGrad<SqrtN>::Of>("SparseSegmentSqrtNGrad", floats);
  kernels.Add<SparseGradOfRows<Sum>::Of>("SparseSegmentSumGradV2", floats);
  kernels.Add<SparseGradOfRows<Mean>::Of>("SparseSegmentMeanGradV2", floats);
  kernels.Add<SparseGradOfRows<SqrtN>::Of>("SparseSegmentSqrtNGradV2", floats);
}

}  // namespace weir
