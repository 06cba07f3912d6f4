// Sparse tensors with dense ones, element by element and as factors of matrix products, and their reductions.
#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/sparse/sparse_view.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T>
T Conjugate(const T& value) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return std::conj(value);
  } else {
    return value;
  }
}

// ---- SparseTensorDenseMatMul ----

template <typename T>
class SparseTensorDenseMatMul final : public Kernel {
 public:
  explicit SparseTensorDenseMatMul(const KernelConstruction& construction)
      : adjoint_a_(construction.attr<bool>("adjoint_a")), adjoint_b_(construction.attr<bool>("adjoint_b")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(1);
    const Tensor& b = context.input(3);
    WEIR_RETURN_IF_ERROR(CheckShapes(context));
    const int64_t num_rows = context.input(2).flat<int64_t>()[adjoint_a_ ? 1 : 0];
    const int64_t inner = context.input(2).flat<int64_t>()[adjoint_a_ ? 0 : 1];
    const int64_t inner_of_b = b.shape().dim(adjoint_b_ ? 1 : 0);
    const int64_t num_columns = b.shape().dim(adjoint_b_ ? 0 : 1);
    if (num_rows < 0 || inner != inner_of_b) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Cannot multiply A and B because inner dimension does not match: ", inner, " vs. ", inner_of_b,
          ".  Did you forget a transpose?  Dimensions of A: [", IndexText(context.input(2).flat<int64_t>()),
          ".  Dimensions of B: ", b.shape().ToString()));
    }
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t row = IntegerAt(indices, 2 * i + (adjoint_a_ ? 1 : 0));
      const int64_t k = IntegerAt(indices, 2 * i + (adjoint_a_ ? 0 : 1));
      if (k < 0 || k >= inner) {
        return absl::InvalidArgumentError(absl::StrCat("k (", k, ") from index[", i, ",", adjoint_a_ ? 0 : 1,
                                                       "] out of bounds (>=", inner, ")"));
      }
      if (row < 0 || row >= num_rows) {
        return absl::InvalidArgumentError(absl::StrCat(
            "m (", row, ") from index[", i, ",", adjoint_a_ ? 1 : 0, "] out of bounds (>=", num_rows, ")"));
      }
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({num_rows, num_columns}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor product, WideOutput(context, *output));
    Multiply(context.cancellation(), indices, values, b, num_columns, product);
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    Narrow(context, product, output);
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;

  absl::Status CheckShapes(const KernelContext& context) const {
    const Shape& indices = context.input(0).shape();
    const Shape& values = context.input(1).shape();
    if (context.input(3).shape().rank() != 2) return absl::InvalidArgumentError("Tensor 'b' is not a matrix");
    if (context.input(2).shape() != Shape({2})) {
      return absl::InvalidArgumentError("Tensor 'a_shape' must have 2 elements");
    }
    if (values.rank() != 1) return absl::InvalidArgumentError("Tensor 'a_values' is not a vector");
    if (indices.rank() != 2) return absl::InvalidArgumentError("Tensor 'a_indices' is not a matrix");
    if (indices.dim(0) != values.num_elements()) {
      return absl::InvalidArgumentError(
          "Number of rows of a_indices does not match number of entries in a_values");
    }
    if (indices.dim(1) != 2) {
      return absl::InvalidArgumentError(
          "Number of columns of a_indices does not match number of entries in "
          "a_shape");
    }
    return absl::OkStatus();
  }

  // A row of b for each element of a, added to a row of the product. Ends early in a step that has ended.
  void Multiply(const Cancellation& cancellation, const Tensor& indices, const Tensor& values,
                const Tensor& b, int64_t num_columns, Tensor& product) const {
    const auto sums = product.flat<Wide>();
    std::fill(sums.begin(), sums.end(), Wide(0));
    const T* const factors = b.flat<T>().data();
    const int64_t step = adjoint_b_ ? b.shape().dim(1) : 1;
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      if (cancellation.is_cancelled()) return;
      const int64_t row = IntegerAt(indices, 2 * i + (adjoint_a_ ? 1 : 0));
      const int64_t k = IntegerAt(indices, 2 * i + (adjoint_a_ ? 0 : 1));
      const T value = values.flat<T>()[i];
      const auto a = static_cast<Wide>(adjoint_a_ ? Conjugate(value) : value);
      Wide* const sum = sums.data() + row * num_columns;
      const T* const factor = factors + (adjoint_b_ ? k : k * num_columns);
      for (int64_t j = 0; j < num_columns; ++j) {
        const T x = factor[j * step];
        const Wide term = elementwise::Mul()(a, static_cast<Wide>(adjoint_b_ ? Conjugate(x) : x));
        sum[j] = elementwise::Add()(sum[j], term);
      }
    }
  }

  const bool adjoint_a_, adjoint_b_;
};

// ---- SparseDenseCwiseAdd, Mul, Div ----

struct AddValues {
  template <typename T>
  static T Of(T x, T y) {
    return T(elementwise::Add()(ComputeType<T>(x), ComputeType<T>(y)));
  }
};
struct MultiplyValues {
  template <typename T>
  static T Of(T x, T y) {
    return T(elementwise::Mul()(ComputeType<T>(x), ComputeType<T>(y)));
  }
};
struct DivideValues {
  template <typename T>
  static T Of(T x, T y) {
    return T(elementwise::Div()(ComputeType<T>(x), ComputeType<T>(y)));
  }
};

// The dense tensor is broadcast to the sparse one's shape, never the other way round.
template <typename T, typename Operation>
class SparseDenseCwise : public Kernel {
 public:
  explicit SparseDenseCwise(const KernelConstruction& construction) : op_(construction.node().op_name()) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const SparseView sparse, SparseView::Read(context, 0));
    const Tensor& dense = context.input(3);
    const int missing = sparse.rank() - dense.shape().rank();
    Dims strides(sparse.rank());
    bool fits = missing >= 0;
    int64_t stride = 1;
    for (int d = sparse.rank() - 1; fits && d >= missing; --d) {
      const int64_t dim = dense.shape().dim(d - missing);
      fits = dim == 1 || dim == sparse.dims()[d];
      strides[d] = dim == 1 ? 0 : stride;
      stride *= dim;
    }
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: ",
                       IndexText(sparse.dims()), " vs. ", dense.shape().ToString()));
    }
    WEIR_RETURN_IF_ERROR(sparse.CheckInBounds());
    const auto factors = dense.flat<T>();
    if constexpr (std::is_same_v<Operation, DivideValues> && std::is_integral_v<T>) {
      if (std::find(factors.begin(), factors.end(), T(0)) != factors.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(op_, " cannot divide by zero, but input dense tensor contains zero"));
      }
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, sparse.values().shape()));
    for (int64_t i = 0; i < sparse.count(); ++i) {
      int64_t position = 0;
      for (int d = missing; d < sparse.rank(); ++d) position += sparse.index(i)[d] * strides[d];
      output->flat<T>()[i] = Operation::Of(sparse.values().flat<T>()[i], factors[position]);
    }
    return absl::OkStatus();
  }

 private:
  const std::string op_;
};

template <typename T>
using SparseDenseCwiseAdd = SparseDenseCwise<T, AddValues>;
template <typename T>
using SparseDenseCwiseMul = SparseDenseCwise<T, MultiplyValues>;
template <typename T>
using SparseDenseCwiseDiv = SparseDenseCwise<T, DivideValues>;

// ---- Reductions ----

template <typename T, bool is_maximum, bool is_sparse>
class SparseReduce : public Kernel {
 public:
  explicit SparseReduce(const KernelConstruction& construction)
      : keep_dims_(construction.attr<bool>("keep_dims")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const SparseView input, SparseView::Read(context, 0));
    WEIR_RETURN_IF_ERROR(Shape::FromDims(input.dims()).status());  // also of what is not kept of it
    WEIR_ASSIGN_OR_RETURN(const std::vector<bool> is_reduced, ReducedAxes(context.input(3), input.rank()));
    WEIR_RETURN_IF_ERROR(input.CheckInBounds());
    Dims kept;  // axes
    Dims dims;
    for (int d = 0; d < input.rank(); ++d) {
      if (!is_reduced[d]) kept.push_back(d);
      if (!is_reduced[d] || keep_dims_) dims.push_back(is_reduced[d] ? 1 : input.dims()[d]);
    }
    if constexpr (is_sparse) {
      return ReduceToSparse(context, input, kept, dims, is_reduced);
    } else {
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
      WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput(context, *output));
      const auto results = wide.template flat<Wide>();
      std::fill(results.begin(), results.end(), Wide(0));
      std::vector<bool> is_set(is_maximum ? shape.num_elements() : 0);
      for (int64_t i = 0; i < input.count(); ++i) {
        int64_t position = 0;
        for (const int64_t d : kept) position = position * input.dims()[d] + input.index(i)[d];
        const auto value = static_cast<Wide>(input.values().template flat<T>()[i]);
        if constexpr (is_maximum) {
          if (is_set[position] && !(results[position] < value)) continue;
          results[position] = value;
          is_set[position] = true;
        } else {
          results[position] = elementwise::Add()(results[position], value);
        }
      }
      Narrow(context, wide, output);
      return absl::OkStatus();
    }
  }

 private:
  using Wide = ComputeType<T>;

  static absl::StatusOr<std::vector<bool>> ReducedAxes(const Tensor& axes, int rank) {
    if (axes.shape().rank() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("reduction_axes must be a scalar or a vector, is ", axes.shape().ToString()));
    }
    std::vector<bool> is_reduced(rank);
    for (const int32_t axis : axes.flat<int32_t>()) {
      if (axis < -rank || axis >= rank) {
        return absl::InvalidArgumentError(
            absl::StrCat("Invalid reduction dimension ", axis, ", for input with ", rank, " dimensions."));
      }
      is_reduced[axis < 0 ? axis + rank : axis] = true;
    }
    return is_reduced;
  }

  // The groups that have elements, sorted.
  static absl::Status ReduceToSparse(KernelContext& context, const SparseView& input, const Dims& kept,
                                     const Dims& dims, const std::vector<bool>& is_reduced) {
    std::vector<int64_t> order(input.count());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    const auto compare = [&](int64_t a, int64_t b) {
      for (const int64_t d : kept) {
        if (input.index(a)[d] != input.index(b)[d]) return input.index(a)[d] < input.index(b)[d] ? -1 : 1;
      }
      return 0;
    };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
    std::vector<int64_t> firsts;  // of each group
    std::vector<Wide> results;
    for (const int64_t i : order) {
      const auto value = static_cast<Wide>(input.values().template flat<T>()[i]);
      if (firsts.empty() || compare(firsts.back(), i) != 0) {
        firsts.push_back(i);
        results.push_back(value);
      } else if constexpr (is_maximum) {
        results.back() = std::max(results.back(), value);
      } else {
        results.back() = elementwise::Add()(results.back(), value);
      }
    }
    const auto count = static_cast<int64_t>(firsts.size());
    const auto rank = static_cast<int64_t>(dims.size());
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count, rank})));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({count})));
    int64_t* next = indices->flat<int64_t>().data();
    for (int64_t k = 0; k < count; ++k) {
      for (int d = 0; d < input.rank(); ++d) {
        if (!is_reduced[d]) {
          *next++ = input.index(firsts[k])[d];
        } else if (rank == input.rank()) {
          *next++ = 0;
        }
      }
      values->flat<T>()[k] = static_cast<T>(results[k]);
    }
    return SetShapeOutput(context, 2, dims);
  }

  const bool keep_dims_;
};

template <typename T>
using SparseReduceSum = SparseReduce<T, false, false>;
template <typename T>
using SparseReduceSumSparse = SparseReduce<T, false, true>;
template <typename T>
using SparseReduceMax = SparseReduce<T, true, false>;
template <typename T>
using SparseReduceMaxSparse = SparseReduce<T, true, true>;

// ---- SparseSoftmax ----

// Of the elements that are there, along the last axis.
template <typename T>
class SparseSoftmax final : public Kernel {
 public:
  explicit SparseSoftmax(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const SparseView input, SparseView::Read(context, 0));
    if (input.rank() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input should have rank >= 2, but received shape: ", IndexText(input.dims())));
    }
    WEIR_RETURN_IF_ERROR(Shape::FromDims(input.dims()).status());
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.values().shape()));
    const std::vector<int64_t> order = RowMajorOrder(input);
    const auto values = input.values().template flat<T>();
    const auto row_of = [&](size_t k) { return input.index(order[k]).subspan(0, input.rank() - 1); };
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && CompareIndices(row_of(begin), row_of(end)) == 0) ++end;
      Wide largest = static_cast<Wide>(values[order[begin]]), sum = 0;
      for (size_t k = begin; k < end; ++k) largest = std::max(largest, static_cast<Wide>(values[order[k]]));
      for (size_t k = begin; k < end; ++k) sum += std::exp(static_cast<Wide>(values[order[k]]) - largest);
      for (size_t k = begin; k < end; ++k) {
        const Wide exponential = std::exp(static_cast<Wide>(values[order[k]]) - largest);
        output->flat<T>()[order[k]] = static_cast<T>(exponential / sum);
      }
    }
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;
};

}  // namespace

void RegisterSparseWithDenseKernels(DeviceKernels& kernels) {
  const Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
              uint64_t, std::complex<float>, std::complex<double>>
      numbers("T");
  const Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
              uint64_t>
      reals("T");
  kernels.Add<SparseTensorDenseMatMul>(
      "SparseTensorDenseMatMul",
      Types<float, double, Half, Bfloat16, int32_t, int64_t, std::complex<float>, std::complex<double>>("T"));
  kernels.Add<SparseDenseCwiseAdd>("SparseDenseCwiseAdd", numbers);
  kernels.Add<SparseDenseCwiseMul>("SparseDenseCwiseMul", numbers);
  kernels.Add<SparseDenseCwiseDiv>("SparseDenseCwiseDiv", numbers);
  kernels.Add<SparseReduceSum>("SparseReduceSum", numbers);
  kernels.Add<SparseReduceSumSparse>("SparseReduceSumSparse", numbers);
  kernels.Add<SparseReduceMax>("SparseReduceMax", reals);
  kernels.Add<SparseReduceMaxSparse>("SparseReduceMaxSparse", reals);
  kernels.Add<SparseSoftmax>("SparseSoftmax", Types<float, double, Half>("T"));
}

}  // namespace weir
