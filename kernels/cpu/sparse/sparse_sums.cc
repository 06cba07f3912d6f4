// Sparse tensors combined with sparse ones: SparseAdd, SparseSparseMaximum, SparseSparseMinimum.
#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/sparse/sparse_view.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kNone = -1;

absl::Status CheckEqualShapes(const SparseView& a, const SparseView& b) {
  if (a.rank() != b.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Ranks of input tensors must match, but saw ranks: ", a.rank(), " and ", b.rank()));
  }
  for (int d = 0; d < a.rank(); ++d) {
    if (a.dims()[d] == b.dims()[d]) continue;
    return absl::InvalidArgumentError(absl::StrCat("Operands' shapes do not match: got ", a.dims()[d],
                                                   " and ", b.dims()[d], " for dimension ", d));
  }
  return absl::OkStatus();
}

// Walks over the elements of both in order; an element that one does not have is kNone there. Both are
// expected to be sorted; if they are not, equal indices may stay apart, as in TensorFlow.
void MergeElements(const SparseView& a, const SparseView& b,
                   absl::FunctionRef<void(int64_t in_a, int64_t in_b)> visit) {
  int64_t i = 0, j = 0;
  while (i < a.count() || j < b.count()) {
    const int order = i == a.count() ? 1 : j == b.count() ? -1 : CompareIndices(a.index(i), b.index(j));
    visit(order <= 0 ? i : kNone, order >= 0 ? j : kNone);
    i += order <= 0;
    j += order >= 0;
  }
}

// One element of the result.
template <typename T>
struct Merged {
  absl::Span<const int64_t> index;
  T value;
};

template <typename T>
absl::Status SetElements(KernelContext& context, int rank, const std::vector<Merged<T>>& elements) {
  const auto count = static_cast<int64_t>(elements.size());
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count, rank})));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({count})));
  int64_t* next = indices->flat<int64_t>().data();
  for (int64_t i = 0; i < count; ++i) {
    next = std::copy(elements[i].index.begin(), elements[i].index.end(), next);
    values->flat<T>()[i] = elements[i].value;
  }
  return absl::OkStatus();
}

template <typename T>
double Magnitude(const T& value) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return std::abs(value);
  } else {
    return std::abs(static_cast<double>(value));
  }
}

template <typename T>
T Sum(T x, T y) {
  return T(elementwise::Add()(ComputeType<T>(x), ComputeType<T>(y)));
}

double NumberOf(const Tensor& scalar) {
  switch (scalar.dtype()) {
    case DType::kFloat32:
      return scalar.scalar<float>();
    case DType::kFloat64:
      return scalar.scalar<double>();
    case DType::kHalf:
      return static_cast<float>(scalar.scalar<Half>());
    case DType::kBfloat16:
      return static_cast<float>(scalar.scalar<Bfloat16>());
    case DType::kInt8:
      return scalar.scalar<int8_t>();
    case DType::kInt16:
      return scalar.scalar<int16_t>();
    case DType::kInt32:
      return scalar.scalar<int32_t>();
    case DType::kInt64:
      return static_cast<double>(scalar.scalar<int64_t>());
    case DType::kUint8:
      return scalar.scalar<uint8_t>();
    case DType::kUint16:
      return scalar.scalar<uint16_t>();
    case DType::kUint32:
      return scalar.scalar<uint32_t>();
    default:
      return static_cast<double>(scalar.scalar<uint64_t>());
  }
}

template <typename T>
class SparseAdd final : public Kernel {
 public:
  explicit SparseAdd(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const SparseView a, SparseView::Read(context, 0));
    WEIR_ASSIGN_OR_RETURN(const SparseView b, SparseView::Read(context, 3));
    const Tensor& thresh = context.input(6);
    if (!thresh.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("The magnitude threshold must be a scalar: got shape ", thresh.shape().ToString()));
    }
    WEIR_RETURN_IF_ERROR(CheckEqualShapes(a, b));
    const double least = NumberOf(thresh);
    const auto in_a = a.values().flat<T>();
    const auto in_b = b.values().flat<T>();
    std::vector<Merged<T>> sums;
    MergeElements(a, b, [&](int64_t i, int64_t j) {
      const T sum = i == kNone ? in_b[j] : j == kNone ? in_a[i] : Sum(in_a[i], in_b[j]);
      // Only sums of two elements may vanish.
      if (i == kNone || j == kNone || least <= Magnitude(sum))
        sums.push_back({i == kNone ? b.index(j) : a.index(i), sum});
    });
    WEIR_RETURN_IF_ERROR(SetElements(context, a.rank(), sums));
    return SetShapeOutput(context, 2, a.dims());
  }
};

// Where an element of the sum came from gets its gradient; zero where it vanished.
template <typename T>
class SparseAddGrad final : public Kernel {
 public:
  explicit SparseAddGrad(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    const Tensor& sum = context.input(3);
    for (int i = 0; i < 4; ++i) {
      const int rank = i == 0 ? 1 : 2;
      if (context.input(i).shape().rank() == rank) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " must have rank ", rank, ", is ", context.input(i).shape().ToString()));
    }
    const int64_t rank = sum.shape().dim(1);
    if (grads.num_elements() != sum.shape().dim(0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of "
                       "sum): got ",
                       grads.num_elements(), " and ", sum.shape().dim(0)));
    }
    for (int operand = 0; operand < 2; ++operand) {
      const Tensor& indices = context.input(1 + operand);
      if (indices.shape().dim(1) != rank) {
        return absl::InvalidArgumentError(
            absl::StrCat("The densified operands should have the same ndims: ", indices.shape().ToString(),
                         " and ", sum.shape().ToString()));
      }
      WEIR_ASSIGN_OR_RETURN(Tensor * output,
                            context.AllocateOutput(operand, Shape({indices.shape().dim(0)})));
      int64_t k = 0;
      for (int64_t i = 0; i < indices.shape().dim(0); ++i) {
        const auto index = indices.flat<int64_t>().subspan(i * rank, rank);
        const auto of_sum = [&] { return sum.flat<int64_t>().subspan(k * rank, rank); };
        while (k < grads.num_elements() && CompareIndices(of_sum(), index) < 0) ++k;
        const bool is_there = k < grads.num_elements() && CompareIndices(of_sum(), index) == 0;
        output->flat<T>()[i] = is_there ? grads.flat<T>()[k] : T(0);
      }
    }
    return absl::OkStatus();
  }
};

// The larger or smaller of each pair; an element that is missing is 0.
template <typename T, bool is_maximum>
class SparseSparseExtreme final : public Kernel {
 public:
  explicit SparseSparseExtreme(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const SparseView a, SparseView::Read(context, 0));
    WEIR_ASSIGN_OR_RETURN(const SparseView b, SparseView::Read(context, 3));
    WEIR_RETURN_IF_ERROR(CheckEqualShapes(a, b));
    std::vector<Merged<T>> elements;
    MergeElements(a, b, [&](int64_t i, int64_t j) {
      const T x = i == kNone ? T(0) : a.values().template flat<T>()[i];
      const T y = j == kNone ? T(0) : b.values().template flat<T>()[j];
      // A NaN comes out, whoever has it.
      const bool takes_y = y != y || (x == x && (is_maximum ? x < y : y < x));
      elements.push_back({i == kNone ? b.index(j) : a.index(i), takes_y ? y : x});
    });
    return SetElements(context, a.rank(), elements);
  }
};

template <typename T>
using SparseSparseMaximum = SparseSparseExtreme<T, true>;
template <typename T>
using SparseSparseMinimum = SparseSparseExtreme<T, false>;

}  // namespace

void RegisterSparseSumsKernels(DeviceKernels& kernels) {
  const Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
              uint64_t, std::complex<float>, std::complex<double>>
      numbers("T");
  const Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
              uint64_t>
      reals("T");
  kernels.Add<SparseAdd>("SparseAdd", numbers);
  kernels.Add<SparseAddGrad>("SparseAddGrad", numbers);
  kernels.Add<SparseSparseMaximum>("SparseSparseMaximum", reals);
  kernels.Add<SparseSparseMinimum>("SparseSparseMinimum", reals);
}

}  // namespace weir
