// TopK, TopKV2, ApproxTopK and NthElement.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 10;  // nanoseconds per element on one core

enum class Wanted { kLargest, kLeast };

// The positions of the k largest of `row`, the largest first, or of the k least, the least first; the first
// of equal ones first, and NaN after any number. Precondition: k <= row.size(), positions has room for k.
// Unfinished when the step is over: the positions are in some order then.
template <typename T, Wanted wanted, typename I>
void FindTopK(const TimelyThreads& threads, absl::Span<const T> row, int64_t k, I* positions) {
  if (k == 0) return;
  const auto comes_before = [&](I a, I b) {
    const auto x = static_cast<ComputeType<T>>(row[a]), y = static_cast<ComputeType<T>>(row[b]);
    if (x != y && x == x && y == y) return wanted == Wanted::kLargest ? x > y : x < y;
    if ((x == x) != (y == y)) return x == x;
    return a < b;
  };
  for (int64_t i = 0; i < k; ++i) positions[i] = static_cast<I>(i);
  std::make_heap(positions, positions + k, comes_before);  // the first is the one to go
  constexpr int64_t kBetweenLooks = 4096;
  const auto count = static_cast<int64_t>(row.size());
  for (int64_t begin = k; begin < count; begin += std::min(kBetweenLooks, count - begin)) {
    if (threads.is_over()) return;
    for (int64_t i = begin; i < count && i - begin < kBetweenLooks; ++i) {
      if (!comes_before(static_cast<I>(i), positions[0])) continue;
      std::pop_heap(positions, positions + k, comes_before);
      positions[k - 1] = static_cast<I>(i);
      std::push_heap(positions, positions + k, comes_before);
    }
  }
  // std::sort_heap in pieces.
  for (int64_t left = k; left > 1;) {
    if (threads.is_over()) return;
    for (const int64_t end = std::max<int64_t>(1, left - kBetweenLooks); left > end; --left)
      std::pop_heap(positions, positions + left, comes_before);
  }
}

template <typename T, typename I, Wanted wanted = Wanted::kLargest>
class TopK final : public Kernel {
 public:
  explicit TopK(const KernelConstruction& construction)
      : k_(construction.node().num_inputs() == 1 ? construction.attr<int64_t>("k") : -1) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const int64_t k, NumWanted(context));
    const int rank = input.shape().rank();
    if (rank == 0) return absl::InvalidArgumentError("input must have at least one dimension, is a scalar");
    const int64_t columns = input.shape().dim(rank - 1);
    if (k < 0 || k > columns) {
      return absl::InvalidArgumentError(absl::StrCat("k is ", k, ", must be in [0, ", columns,
                                                     "] for an input ", input.shape().ToString()));
    }
    if (columns - 1 > static_cast<int64_t>(std::numeric_limits<I>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat("the positions of ", columns, " elements do not fit in ", DTypeName(DTypeOf<I>)));
    }
    Dims dims(input.shape().dims().begin(), input.shape().dims().end());
    dims.back() = k;
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(1, shape));
    if (values->num_elements() == 0) return absl::OkStatus();
    const T* from = input.flat<T>().data();
    T* to_values = values->flat<T>().data();
    I* to_indices = indices->flat<I>().data();
    return ParallelForInTime(context, input.num_elements() / columns, kCost * static_cast<double>(columns),
                             [=, &context](int64_t begin, int64_t end) {
                               for (int64_t r = begin; r < end; ++r) {
                                 const absl::Span<const T> row(from + r * columns, columns);
                                 I* const positions = to_indices + r * k;
                                 FindTopK<T, wanted>(context, row, k, positions);
                                 for (int64_t i = 0; i < k; ++i) to_values[r * k + i] = row[positions[i]];
                               }
                             });
  }

 private:
  absl::StatusOr<int64_t> NumWanted(KernelContext& context) const {
    if (context.num_inputs() == 1) return k_;
    if (context.input(1).shape().rank() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("k must be a scalar, is ", context.input(1).shape().ToString()));
    }
    return IntegerAt(context.input(1), 0);
  }

  const int64_t k_;
};

template <typename T, typename I>
using LargestK = TopK<T, I>;
template <typename T>
using LargestKInt32 = TopK<T, int32_t>;

// The largest or least of the last dimension, all of them right: an approximation is of use to other
// hardware.
template <typename T>
class ApproxTopK final : public Kernel {
 public:
  explicit ApproxTopK(const KernelConstruction& construction)
      : axis_(construction.attr<int64_t>("reduction_dimension")) {
    if (construction.attr<bool>("is_max_k")) {
      top_k_ = std::make_unique<TopK<T, int32_t>>(construction);
    } else {
      top_k_ = std::make_unique<TopK<T, int32_t, Wanted::kLeast>>(construction);
    }
  }

  absl::Status Compute(KernelContext& context) override {
    const int rank = context.input(0).shape().rank();
    if (rank > 0 && axis_ != -1 && axis_ != rank - 1) {
      return absl::UnimplementedError(absl::StrCat("ApproxTopK takes the last dimension of ",
                                                   context.input(0).shape().ToString(),
                                                   ", reduction_dimension is ", axis_));
    }
    return top_k_->Compute(context);
  }

 private:
  const int64_t axis_;
  std::unique_ptr<Kernel> top_k_;
};

// The element of each row that would be at place n if the row were sorted.
template <typename T>
class NthElement final : public Kernel {
 public:
  explicit NthElement(const KernelConstruction& construction)
      : is_reversed_(construction.attr<bool>("reverse")) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& shape = context.input(0).shape();
    if (context.input(1).shape().rank() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("N must be scalar but has rank ", context.input(1).shape().rank()));
    }
    const int64_t n = IntegerAt(context.input(1), 0);
    if (n < 0) return absl::InvalidArgumentError(absl::StrCat("n must be non-negative but is ", n));
    if (shape.rank() == 0) return absl::InvalidArgumentError("Input must be at least rank 1 but is rank 0");
    const int64_t columns = shape.dim(shape.rank() - 1);
    if (n >= columns) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input must have last dimension > n = ", n, ", is ", shape.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, Shape(shape.dims().first(shape.rank() - 1))));
    const T* from = context.input(0).flat<T>().data();
    T* to = output->flat<T>().data();
    const int64_t place = is_reversed_ ? columns - 1 - n : n;
    return ParallelForInTime(context, output->num_elements(), kCost * static_cast<double>(columns),
                             [=](int64_t begin, int64_t end) {
                               std::vector<T> row(columns);
                               for (int64_t r = begin; r < end; ++r) {
                                 std::copy_n(from + r * columns, columns, row.begin());
                                 std::nth_element(row.begin(), row.begin() + place, row.end(), IsLess);
                                 to[r] = row[place];
                               }
                             });
  }

 private:
  // NaN is less than any number: some order must be.
  static bool IsLess(T a, T b) {
    const auto x = static_cast<ComputeType<T>>(a), y = static_cast<ComputeType<T>>(b);
    return x < y || (x != x && y == y);
  }

  const bool is_reversed_;
};

}  // namespace

void RegisterTopKKernels(DeviceKernels& kernels) {
  const auto reals = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                           uint16_t, uint32_t, uint64_t>("T");
  kernels.Add<LargestK>("TopKV2", reals, Types<int16_t, int32_t, int64_t>("index_type"));
  kernels.Add<LargestKInt32>("TopK", reals);
  kernels.Add<ApproxTopK>("ApproxTopK", Types<float, Half, Bfloat16>("T"));
  kernels.Add<NthElement>("NthElement", reals);
}

}  // namespace weir
