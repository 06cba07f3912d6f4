// Kernels of the reductions. Any set of axes becomes a sequence of reductions of the middle dimension of an
// array [before, reduced, after]; neighbouring dimensions of one kind are merged first, so there is mostly
// one of them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/reduction_loops.h"
#include "kernels/cpu/widened.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// A long row is reduced in pieces of this many elements, by as many threads as there are; their number never
// shows in the result.
constexpr int64_t kPiece = 1 << 15;
constexpr int64_t kShortRow = 512;
constexpr double kNanosecondsPerElement = 0.15;

// One row by pieces. Precondition: n > kPiece.
absl::Status ReduceLongRow(KernelContext& context, const ReductionRow& reduction, const ReductionRow& combine,
                           const char* in, int64_t n, char* out) {
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  WEIR_ASSIGN_OR_RETURN(Tensor partial, context.AllocateTemporary(reduction.dtype, Shape({pieces})));
  const size_t size = DTypeSize(reduction.dtype);
  context.threads().ParallelFor(pieces, kPiece * kNanosecondsPerElement, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      reduction.inner(in + i * kPiece * size, 1, std::min(kPiece, n - i * kPiece),
                      static_cast<char*>(partial.data()) + i * size);
    }
  });
  combine.inner(partial.data(), 1, pieces, out);
  return absl::OkStatus();
}

// in[n, after] over n for short rows: blocks of rows first and then their results. Columns could not be
// divided among threads without cutting rows into less than a vector.
absl::Status ReduceTall(KernelContext& context, const ReductionRow& reduction, const char* in, int64_t n,
                        int64_t after, int64_t block_rows, char* out) {
  const int64_t blocks = (n + block_rows - 1) / block_rows;
  WEIR_ASSIGN_OR_RETURN(Tensor partial, context.AllocateTemporary(reduction.dtype, Shape({blocks, after})));
  char* results = static_cast<char*>(partial.data());
  const size_t row_bytes = after * DTypeSize(reduction.dtype);
  const double block_cost = static_cast<double>(block_rows * after) * kNanosecondsPerElement;
  context.threads().ParallelFor(blocks, block_cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i * block_rows;
      reduction.outer(in + row * row_bytes, std::min(block_rows, n - row), after, 0, after,
                      results + i * row_bytes);
    }
  });
  reduction.outer(results, blocks, after, 0, after, out);
  return absl::OkStatus();
}

// out[before, after] = the reduction of in[before, n, after] over n.
absl::Status ReduceMiddle(KernelContext& context, const ReductionRow& reduction, const char* in,
                          int64_t before, int64_t n, int64_t after, char* out) {
  const size_t size = DTypeSize(reduction.dtype);
  const double cost = n * kNanosecondsPerElement + 2;
  const int64_t block_rows = after == 0 ? n : kPiece / after;
  if (after == 1 && n > kPiece) {
    for (int64_t i = 0; i < before; ++i) {
      WEIR_RETURN_IF_ERROR(
          ReduceLongRow(context, reduction, reduction, in + i * n * size, n, out + i * size));
    }
  } else if (after == 1) {
    context.threads().ParallelFor(before, cost, [&](int64_t begin, int64_t end) {
      reduction.inner(in + begin * n * size, end - begin, n, out + begin * size);
    });
  } else if (before == 1 && after <= kShortRow && n > block_rows) {
    return ReduceTall(context, reduction, in, n, after, block_rows, out);
  } else if (before == 1) {
    context.threads().ParallelFor(
        after, cost, [&](int64_t begin, int64_t end) { reduction.outer(in, n, after, begin, end, out); });
  } else {
    context.threads().ParallelFor(before, cost * after, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        reduction.outer(in + i * n * after * size, n, after, 0, after, out + i * after * size);
      }
    });
  }
  return absl::OkStatus();
}

int64_t Product(const Dims& sizes, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= sizes[i];
  return product;
}

// Reduces the innermost reduced dimension until one is left, which goes to `output`.
absl::Status ReduceAll(KernelContext& context, const ReductionRow& reduction, const Tensor& input,
                       MergedDims dims, Tensor& output) {
  if (input.num_elements() == 0) {  // but maybe very many rows of nothing
    return ReduceMiddle(context, reduction, nullptr, 1, 0, output.num_elements(),
                        static_cast<char*>(output.data()));
  }
  Tensor current = input;
  while (true) {
    const int64_t left = std::count(dims.reduced.begin(), dims.reduced.end(), true);
    size_t at = dims.sizes.size();
    while (at > 0 && !dims.reduced[at - 1]) --at;
    const int64_t before = Product(dims.sizes, 0, at == 0 ? 0 : at - 1);
    const int64_t after = Product(dims.sizes, at, dims.sizes.size());
    const int64_t n = at == 0 ? 1 : dims.sizes[at - 1];
    const char* in = static_cast<const char*>(current.data());
    if (left <= 1) {
      return ReduceMiddle(context, reduction, in, before, n, after, static_cast<char*>(output.data()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor partial, context.AllocateTemporary(reduction.dtype, Shape({before, after})));
    WEIR_RETURN_IF_ERROR(
        ReduceMiddle(context, reduction, in, before, n, after, static_cast<char*>(partial.data())));
    current = std::move(partial);
    dims.sizes.erase(dims.sizes.begin() + at - 1);
    dims.reduced.erase(dims.reduced.begin() + at - 1);
  }
}

// The mean of no integers at all is 0: there is no NaN to say so.
void DivideAll(Tensor& tensor, int64_t count) {
  WithNumericType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (T& value : tensor.flat<T>()) {
      if constexpr (std::is_integral_v<T>) {
        using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
        value = count == 0 ? T(0) : static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(count));
      } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
        // Sums of these are kept in float.
      } else {
        value = value / T(count);
      }
    }
  });
}

// The squares of absolute values, which for complex numbers are real. Integers wrap around.
absl::StatusOr<Tensor> Squares(KernelContext& context, const Tensor& tensor) {
  WEIR_ASSIGN_OR_RETURN(Tensor squares, context.AllocateTemporary(tensor.dtype(), tensor.shape()));
  WithNumericType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, Half> && !std::is_same_v<T, Bfloat16>) {
      const T* from = tensor.flat<T>().data();
      T* to = squares.flat<T>().data();
      context.threads().ParallelFor(tensor.num_elements(), kNanosecondsPerElement,
                                    [=](int64_t begin, int64_t end) {
                                      for (int64_t i = begin; i < end; ++i) {
                                        to[i] = elementwise::Mul()(from[i], elementwise::Conj()(from[i]));
                                      }
                                    });
    }
  });
  return squares;
}

// A sum of integers that wrapped around to less than nothing has the root 0.
void RootAll(Tensor& tensor) {
  WithNumericType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, Half> && !std::is_same_v<T, Bfloat16>) {
      for (T& value : tensor.flat<T>()) {
        if constexpr (std::is_integral_v<T>)
          value = value <= 0 ? T(0) : static_cast<T>(std::sqrt(static_cast<double>(value)));
        else
          value = std::sqrt(value);
      }
    }
  });
}

// What is done to the elements before they are combined, and to the result.
enum class Finish { kNothing, kMean, kNorm };

class Reduction final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const std::string& op = construction.node().op_name();
    const DType dtype = construction.input_type(0);
    const Finish finish = op == "Mean"            ? Finish::kMean
                          : op == "EuclideanNorm" ? Finish::kNorm
                                                  : Finish::kNothing;
    const ReductionRow* row =
        FindReduction(finish == Finish::kNothing ? absl::string_view(op) : "Sum", ComputeDType(dtype));
    if (row == nullptr) return absl::InternalError(absl::StrCat("no loop for ", DTypeName(dtype)));
    return std::unique_ptr<Kernel>(new Reduction(*row, finish, construction.attr<bool>("keep_dims")));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                          ReadReducedAxes(context.input(1), input.shape().rank()));
    const auto [dims, count] = ReducedDims(input.shape(), reduced, keep_dims_);
    const MergedDims merged = MergeDims(input.shape(), reduced);
    if (count == 1 && finish_ != Finish::kNorm) {  // nothing to combine: the same elements in another shape
      context.set_output(0, input.WithShape(Shape(dims)));
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape(dims)));
    WEIR_ASSIGN_OR_RETURN(Tensor wide, Widen(context, input));
    if (finish_ == Finish::kNorm) {
      WEIR_ASSIGN_OR_RETURN(wide, Squares(context, wide));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    WEIR_RETURN_IF_ERROR(ReduceAll(context, reduction_, wide, merged, result));
    if (finish_ == Finish::kMean) DivideAll(result, count);
    if (finish_ == Finish::kNorm) RootAll(result);
    Narrow(context, result, output);
    return absl::OkStatus();
  }

 private:
  Reduction(const ReductionRow& reduction, Finish finish, bool keep_dims)
      : reduction_(reduction), finish_(finish), keep_dims_(keep_dims) {}

  const ReductionRow& reduction_;
  const Finish finish_;
  const bool keep_dims_;
};

// Half the sum of squares of all elements.
class L2Loss final : public Kernel {
 public:
  explicit L2Loss(const KernelConstruction& construction)
      : squares_(FindReduction("L2Loss", ComputeDType(construction.input_type(0)))),
        sum_(FindReduction("Sum", ComputeDType(construction.input_type(0)))) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Tensor input, Widen(context, context.input(0)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
    WEIR_ASSIGN_OR_RETURN(const double sum, squares_->dtype == DType::kFloat32
                                                ? SumOfSquares<float>(context, input)
                                                : SumOfSquares<double>(context, input));
    WithNumericType(output->dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_same_v<T, double>)
        output->flat<T>()[0] = sum / 2;
      else if constexpr (std::is_constructible_v<T, float>)
        output->flat<T>()[0] = T(static_cast<float>(sum / 2));
    });
    return absl::OkStatus();
  }

 private:
  // Precondition: T is the loops' type.
  template <typename T>
  absl::StatusOr<double> SumOfSquares(KernelContext& context, const Tensor& input) const {
    T sum = 0;
    const char* in = static_cast<const char*>(input.data());
    const int64_t n = input.num_elements();
    if (n > kPiece) {
      WEIR_RETURN_IF_ERROR(ReduceLongRow(context, *squares_, *sum_, in, n, reinterpret_cast<char*>(&sum)));
    } else {
      squares_->inner(in, 1, n, &sum);
    }
    return static_cast<double>(sum);
  }

  const ReductionRow* const squares_;
  const ReductionRow* const sum_;
};

// The position of the extreme element along a dimension; the first of equal ones. A NaN is chosen only where
// all are.
template <typename Before, typename T>
void FindExtremes(const Tensor& input, int64_t before, int64_t n, int64_t after,
                  absl::Span<int64_t> positions) {
  if (positions.empty()) return;  // but maybe very many rows of nothing
  const T* in = input.flat<T>().data();
  for (int64_t b = 0; b < before; ++b) {
    for (int64_t a = 0; a < after; ++a) {
      const T* column = in + b * n * after + a;
      int64_t best = 0;
      for (int64_t i = 1; i < n; ++i) {
        const T &value = column[i * after], &extreme = column[best * after];
        if (Before()(value, extreme) || (extreme != extreme && value == value)) best = i;
      }
      positions[b * after + a] = best;
    }
  }
}

template <typename Before>
absl::Status ArgExtreme(KernelContext& context) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(const int axis, ReadAxis(context.input(1), input.shape().rank(), "dimension"));
  Dims dims(input.shape().dims().begin(), input.shape().dims().end());
  const int64_t n = dims[axis];
  const int64_t before = Product(dims, 0, axis), after = Product(dims, axis + 1, dims.size());
  dims.erase(dims.begin() + axis);
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  if (n == 0 && shape.num_elements() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Reduction axis ", axis, " is empty in shape ", input.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  WEIR_ASSIGN_OR_RETURN(Tensor positions, context.AllocateTemporary(DType::kInt64, shape));
  const auto find = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (requires(T a, T b) { a > b; })
      FindExtremes<Before, T>(input, before, n, after, positions.flat<int64_t>());
  };
  if (input.dtype() == DType::kBool)
    find(TypeTag<bool>());
  else
    WithNumericType(input.dtype(), find);
  WithNumericType(output->dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < shape.num_elements(); ++i)
        output->flat<T>()[i] = static_cast<T>(positions.flat<int64_t>()[i]);
    }
  });
  return absl::OkStatus();
}

std::vector<DType> DTypesOf(absl::string_view op) {
  std::vector<DType> dtypes;
  for (absl::Span<const ReductionRow> table : {FloatReductions(), OtherReductions()}) {
    for (const ReductionRow& row : table) {
      if (row.op == op) dtypes.push_back(row.dtype);
    }
  }
  dtypes.insert(dtypes.end(), {DType::kHalf, DType::kBfloat16});
  return dtypes;
}

}  // namespace

void RegisterReductionKernels(DeviceKernels& kernels) {
  for (absl::string_view op : {"Sum", "Prod", "Max", "Min"})
    kernels.Add<Reduction>(op, {{"T", DTypesOf(op)}});
  kernels.Add<Reduction>("Mean", {{"T", DTypesOf("Sum")}});
  kernels.Add<Reduction>("EuclideanNorm", {{"T", DTypesOf("Sum")}});
  kernels.Add<Reduction>("All");
  kernels.Add<Reduction>("Any");
  kernels.Add<L2Loss>("L2Loss", {{"T", DTypesOf("L2Loss")}});
  std::vector<DType> ordered = RealDTypes();
  ordered.push_back(DType::kBool);
  kernels.Add<&ArgExtreme<std::greater<>>>("ArgMax", {{"T", ordered}});
  kernels.Add<&ArgExtreme<std::less<>>>("ArgMin", {{"T", ordered}});
}

}  // namespace weir
