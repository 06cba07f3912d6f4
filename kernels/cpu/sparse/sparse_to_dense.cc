// Sparse tensors written into dense ones: SparseToDense, SparseTensorDenseAdd.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/sparse/sparse_view.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// indices[i] of a tensor of int32 or int64, which is a matrix, or a vector of positions.
Dims IndexAt(const Tensor& indices, int64_t i, int rank) {
  Dims index(rank);
  for (int d = 0; d < rank; ++d) index[d] = IntegerAt(indices, i * rank + d);
  return index;
}

bool IsInside(const Dims& index, const Shape& shape) {
  for (int d = 0; d < shape.rank(); ++d) {
    if (index[d] < 0 || index[d] >= shape.dim(d)) return false;
  }
  return true;
}

int64_t PositionOf(const Dims& index, const Shape& shape) {
  int64_t position = 0;
  for (int d = 0; d < shape.rank(); ++d) position = position * shape.dim(d) + index[d];
  return position;
}

class SparseToDense final : public Kernel {
 public:
  explicit SparseToDense(const KernelConstruction& construction)
      : validates_(construction.attr<bool>("validate_indices")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(2);
    const Tensor& default_value = context.input(3);
    if (indices.shape().rank() > 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sparse_indices should be a scalar, vector, or matrix, got shape ", indices.shape().ToString()));
    }
    const int64_t count = indices.shape().rank() > 0 ? indices.shape().dim(0) : 1;
    const int64_t rank = indices.shape().rank() > 1 ? indices.shape().dim(1) : 1;
    WEIR_RETURN_IF_ERROR(CheckOthers(context, count, rank));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(1), "output_shape"));
    WEIR_ASSIGN_OR_RETURN(const Tensor positions, Positions(context, count, static_cast<int>(rank), shape));

    WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, default_value, shape.num_elements()));
    if (values.shape().is_scalar()) WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, values, count));
    WEIR_ASSIGN_OR_RETURN(Tensor * dense, context.AllocateOutput(0, shape));
    FillElements(default_value, *dense, 0, shape.num_elements());
    for (int64_t i = 0; i < count; ++i) {
      CopyElements(values, values.shape().is_scalar() ? 0 : i, *dense, positions.flat<int64_t>()[i], 1);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckOthers(const KernelContext& context, int64_t count, int64_t rank) {
    const Shape& shape = context.input(1).shape();
    const Shape& values = context.input(2).shape();
    if (shape.rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("output_shape must be rank 1, got shape ", shape.ToString()));
    }
    if (shape.num_elements() != rank) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output_shape has incorrect number of elements: ", shape.num_elements(), " should be: ", rank));
    }
    if (!values.is_scalar() && values != Shape({count})) {
      return absl::InvalidArgumentError(absl::StrCat("sparse_values has incorrect shape ", values.ToString(),
                                                     ", should be [] or [", count, "]"));
    }
    if (!context.input(3).shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("default_value should be a scalar, is ", context.input(3).shape().ToString()));
    }
    return absl::OkStatus();
  }

  // A vector. Indices of rank 0 take no memory, so that there may be any number of them.
  absl::StatusOr<Tensor> Positions(KernelContext& context, int64_t count, int rank,
                                   const Shape& shape) const {
    const Tensor& indices = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor positions, context.AllocateTemporary(DType::kInt64, Shape({count})));
    Dims previous;
    for (int64_t i = 0; i < count; ++i) {
      Dims index = IndexAt(indices, i, rank);
      if (!IsInside(index, shape)) {
        return absl::InvalidArgumentError(
            validates_ ? absl::StrCat("indices[", i, "] = ", IndexText(index),
                                      " is out of bounds: need 0 <= index < ", shape.ToString())
                       : absl::StrCat("Indices are not valid (out of bounds).  Shape: ", shape.ToString()));
      }
      if (validates_ && i > 0 && CompareIndices(index, previous) <= 0) {
        const bool is_repeated = CompareIndices(index, previous) == 0;
        return absl::InvalidArgumentError(
            absl::StrCat("indices[", i, "] = ", IndexText(index),
                         is_repeated ? " is repeated"
                                     : " is out of order. Many sparse ops require sorted indices.\n    Use "
                                       "`tf.sparse.reorder` to create a correctly ordered copy.\n\n"));
      }
      positions.flat<int64_t>()[i] = PositionOf(index, shape);
      previous = std::move(index);
    }
    return positions;
  }

  const bool validates_;
};

template <typename T>
class SparseTensorDenseAdd final : public Kernel {
 public:
  explicit SparseTensorDenseAdd(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(1);
    const Tensor& sparse_shape = context.input(2);
    const Tensor& b = context.input(3);
    if (indices.shape().rank() != 2 || values.shape().rank() != 1 || sparse_shape.shape().rank() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a_indices must be a matrix, a_values and a_shape vectors, are ", indices.shape().ToString(), ", ",
          values.shape().ToString(), " and ", sparse_shape.shape().ToString()));
    }
    const int rank = b.shape().rank();
    if (indices.shape().dim(0) != values.num_elements() || indices.shape().dim(1) != rank ||
        sparse_shape.num_elements() != rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("a_indices ", indices.shape().ToString(), ", a_values ", values.shape().ToString(),
                       " and a_shape ", sparse_shape.shape().ToString(), " do not fit a b of rank ", rank));
    }
    for (int d = 0; d < rank; ++d) {
      if (IntegerAt(sparse_shape, d) == b.shape().dim(d)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Dimension ", d, " does not equal (no broadcasting is supported): sparse side ",
                       IntegerAt(sparse_shape, d), " vs dense side ", b.shape().dim(d)));
    }
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const Dims index = IndexAt(indices, i, rank);
      if (IsInside(index, b.shape())) continue;
      return absl::InvalidArgumentError(absl::StrCat("Sparse tensor has an invalid index: a_indices[", i,
                                                     "] = ", IndexText(index),
                                                     ", dense tensor shape: ", b.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({3}, 0, b.shape()));
    if (output->data() != b.data()) CopyElements(b, 0, *output, 0, b.num_elements());
    const auto sums = output->template flat<T>();
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      T& sum = sums[PositionOf(IndexAt(indices, i, rank), b.shape())];
      sum = T(elementwise::Add()(ComputeType<T>(sum), ComputeType<T>(values.flat<T>()[i])));
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterSparseToDenseKernels(DeviceKernels& kernels) {
  kernels.Add<SparseToDense>("SparseToDense");
  kernels.Add<SparseTensorDenseAdd>(
      "SparseTensorDenseAdd",
      Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
            uint64_t, std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
