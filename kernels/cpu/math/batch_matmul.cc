// BatchMatMul, BatchMatMulV2, which broadcasts, and BatchMatMulV3, which multiplies numbers of two types.
#include <algorithm>
#include <complex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/math/batch_product.h"
#include "kernels/cpu/math/broadcast_batch.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T>
absl::StatusOr<Tensor> Conjugated(KernelContext& context, const Tensor& tensor) {
  WEIR_ASSIGN_OR_RETURN(Tensor copy, context.AllocateTemporary(tensor.dtype(), tensor.shape()));
  const absl::Span<const T> from = tensor.flat<T>();
  for (size_t i = 0; i < from.size(); ++i) copy.flat<T>()[i] = std::conj(from[i]);
  return copy;
}

// Whole numbers of 8 bits as what they are computed in.
template <typename Wide>
absl::StatusOr<Tensor> Converted(KernelContext& context, const Tensor& tensor) {
  WEIR_ASSIGN_OR_RETURN(Tensor copy, context.AllocateTemporary(DTypeOf<Wide>, tensor.shape()));
  const absl::Span<Wide> to = copy.flat<Wide>();
  const auto convert = [&to](const auto from) { std::copy(from.begin(), from.end(), to.begin()); };
  if (tensor.dtype() == DType::kInt8) {
    convert(tensor.flat<int8_t>());
  } else {
    convert(tensor.flat<uint8_t>());
  }
  return copy;
}

// T: of the product.
template <typename T>
class BatchMatMul final : public Kernel {
 public:
  explicit BatchMatMul(const KernelConstruction& construction)
      : adjoint_x_(construction.attr<bool>("adj_x")),
        adjoint_y_(construction.attr<bool>("adj_y")),
        broadcasts_(construction.node().op_name() != "BatchMatMul") {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Shape& x_shape = context.input(0).shape();
    const Shape& y_shape = context.input(1).shape();
    WEIR_ASSIGN_OR_RETURN(const ProductShape product, ShapeOfProduct(x_shape, y_shape));
    WEIR_ASSIGN_OR_RETURN(const Shape batch, BatchShape(x_shape, y_shape));
    Dims dims(batch.dims().begin(), batch.dims().end());
    dims.insert(dims.end(), {product.m, product.n});
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Operand(context, 0, adjoint_x_));
    WEIR_ASSIGN_OR_RETURN(const Tensor y, Operand(context, 1, adjoint_y_));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    const BroadcastBatch of_x(BatchOf(x_shape), batch), of_y(BatchOf(y_shape), batch);
    WEIR_RETURN_IF_ERROR(MultiplyBatches<Wide>(
        context, product, batch.num_elements(), [&](int64_t i) { return of_x.MatrixOf(i); },
        [&](int64_t i) { return of_y.MatrixOf(i); }, x.flat<Wide>().data(), y.flat<Wide>().data(),
        result.flat<Wide>().data()));
    Narrow(context, result, output);
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<Tensor> Operand(KernelContext& context, int input, [[maybe_unused]] bool is_adjoint) {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      if (is_adjoint) return Conjugated<T>(context, context.input(input));
    }
    if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, Bfloat16>) {
      if (context.input(input).dtype() != DTypeOf<T>) {
        return Converted<ComputeType<T>>(context, context.input(input));
      }
    }
    return Widen(context, context.input(input));
  }

  absl::StatusOr<ProductShape> ShapeOfProduct(const Shape& x, const Shape& y) const {
    const int x_rank = x.rank(), y_rank = y.rank();
    if (x_rank < 2 || y_rank < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("both inputs must have matrices: x is ", x.ToString(), ", y is ", y.ToString()));
    }
    const int64_t x_rows = x.dim(x_rank - 2), x_columns = x.dim(x_rank - 1);
    const int64_t y_rows = y.dim(y_rank - 2), y_columns = y.dim(y_rank - 1);
    const ProductShape product = {adjoint_x_ ? x_columns : x_rows, adjoint_x_ ? x_rows : x_columns,
                                  adjoint_y_ ? y_rows : y_columns, adjoint_x_, adjoint_y_};
    if (product.k == (adjoint_y_ ? y_columns : y_rows)) return product;
    return absl::InvalidArgumentError(
        absl::StrCat("Matrix size-incompatible: In[0]: ", x.ToString(), ", In[1]: ", y.ToString(),
                     ": inner dimensions differ (adj_x=", adjoint_x_ ? "true" : "false",
                     ", adj_y=", adjoint_y_ ? "true" : "false", ")"));
  }

  absl::StatusOr<Shape> BatchShape(const Shape& x, const Shape& y) const {
    const Shape x_batch = BatchOf(x), y_batch = BatchOf(y);
    if (x_batch == y_batch) return x_batch;
    const absl::StatusOr<Shape> batch = BroadcastShapes({&x_batch, &y_batch});
    if (broadcasts_ && batch.ok()) return batch;
    return absl::InvalidArgumentError(
        absl::StrCat("batch dimensions differ: x is ", x.ToString(), ", y is ", y.ToString()));
  }

  const bool adjoint_x_, adjoint_y_, broadcasts_;
};

template <typename... T>
void AddOfOneType(DeviceKernels& kernels) {
  (kernels.Add<BatchMatMul<T>>("BatchMatMulV3",
                               {{"Ta", {DTypeOf<T>}}, {"Tb", {DTypeOf<T>}}, {"Tout", {DTypeOf<T>}}}),
   ...);
}

void AddOfTwoTypes(DeviceKernels& kernels) {
  const std::vector<DType> bytes = {DType::kInt8, DType::kUint8}, bfloat16 = {DType::kBfloat16};
  kernels.Add<BatchMatMul<int32_t>>("BatchMatMulV3",
                                    {{"Ta", bytes}, {"Tb", bytes}, {"Tout", {DType::kInt32}}});
  kernels.Add<BatchMatMul<Bfloat16>>("BatchMatMulV3", {{"Ta", bytes}, {"Tb", bfloat16}, {"Tout", bfloat16}});
  kernels.Add<BatchMatMul<Bfloat16>>("BatchMatMulV3", {{"Ta", bfloat16}, {"Tb", bytes}, {"Tout", bfloat16}});
}

}  // namespace

void RegisterBatchMatmulKernels(DeviceKernels& kernels) {
  kernels.Add<BatchMatMul>("BatchMatMul", Types<float, double, Half, Bfloat16, int16_t, int32_t, int64_t,
                                                std::complex<float>, std::complex<double>>("T"));
  kernels.Add<BatchMatMul>("BatchMatMulV2",
                           Types<float, double, Half, Bfloat16, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                                 uint32_t, uint64_t, std::complex<float>, std::complex<double>>("T"));
  AddOfOneType<float, double, Half, Bfloat16, int16_t, int32_t, int64_t, std::complex<float>,
               std::complex<double>>(kernels);
  AddOfTwoTypes(kernels);
}

}  // namespace weir
