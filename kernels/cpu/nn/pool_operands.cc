#include "kernels/cpu/nn/pool_operands.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"

namespace weir {

absl::StatusOr<PoolWindows> PoolWindows::Of(const KernelConstruction& construction) {
  WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForPooling(construction));
  return PoolWindows(std::move(attrs), construction.node().FindAttr("ksize") == nullptr);
}

absl::StatusOr<WindowGeometry> PoolWindows::Geometry(const KernelContext& context, const Shape& input) const {
  if (!takes_windows_) return attrs_.Pooling(input);
  const int count = context.num_inputs();
  WEIR_ASSIGN_OR_RETURN(const Dims ksize, ReadIntegers(context.input(count - 2), "ksize"));
  WEIR_ASSIGN_OR_RETURN(const Dims strides, ReadIntegers(context.input(count - 1), "strides"));
  WEIR_ASSIGN_OR_RETURN(const WindowAttrs attrs, attrs_.Sliding(ksize, strides));
  return attrs.Pooling(input);
}

absl::StatusOr<WindowGeometry> PoolWindows::OfMaxPoolGrad(const KernelContext& context) const {
  WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, Geometry(context, context.input(0).shape()));
  WEIR_RETURN_IF_ERROR(CheckPoolShape("orig_output", context.input(1), PooledShape(geometry)));
  WEIR_RETURN_IF_ERROR(CheckPoolShape("grad", context.input(2), PooledShape(geometry)));
  return geometry;
}

absl::StatusOr<WindowGeometry> PoolWindows::OfAvgPoolGrad(const KernelContext& context) const {
  const Tensor& sizes = context.input(0);
  WEIR_RETURN_IF_ERROR(CheckPoolShape("orig_input_shape", sizes, {4}));
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(sizes, "orig_input_shape"));
  WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, Geometry(context, shape));
  WEIR_RETURN_IF_ERROR(CheckPoolShape("grad", context.input(1), PooledShape(geometry)));
  return geometry;
}

Shape PooledShape(const WindowGeometry& geometry) {
  return geometry.ImageShape(geometry.output, geometry.channels);
}

absl::Status CheckPoolShape(absl::string_view name, const Tensor& tensor, const Shape& expected) {
  if (tensor.shape() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be ", expected.ToString(), ", is ", tensor.shape().ToString()));
}

}  // namespace weir
