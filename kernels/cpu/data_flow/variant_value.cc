#include "kernels/cpu/data_flow/variant_value.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

const VariantValue* ValueOf(const ResourceHandle& element) {
  return dynamic_cast<const VariantValue*>(element.resource.get());
}

template <typename T>
T Sum(T x, T y) {
  if constexpr (std::is_integral_v<T>) {  // wraps around; signed overflow is undefined
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(x) + static_cast<Unsigned>(y)));
  } else {
    return T(x + y);
  }
}

}  // namespace

absl::StatusOr<int> DepthAround(const Tensor& tensor) {
  int depth = 1;
  if (tensor.dtype() != DType::kVariant) return depth;
  for (const ResourceHandle& element : tensor.flat<ResourceHandle>()) {
    if (const VariantValue* value = ValueOf(element)) depth = std::max(depth, value->depth() + 1);
  }
  if (depth <= VariantValue::kMaxDepth) return depth;
  return absl::InvalidArgumentError(
      absl::StrCat("lists and optionals lie in each other more than ", VariantValue::kMaxDepth, " deep"));
}

Tensor VariantOf(RefPtr<VariantValue> value) {
  Tensor tensor(DType::kVariant, Shape());
  tensor.flat<ResourceHandle>()[0].resource = std::move(value);
  return tensor;
}

absl::StatusOr<Tensor> ZerosLikeTensor(const Tensor& tensor, KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor zeros, context.AllocateTemporary(tensor.dtype(), tensor.shape()));
  if (tensor.dtype() != DType::kVariant) {
    ClearElements(zeros, 0, zeros.num_elements());
    return zeros;
  }
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const VariantValue* const value = ValueOf(tensor.flat<ResourceHandle>()[i]);
    if (value == nullptr) continue;
    WEIR_ASSIGN_OR_RETURN(zeros.flat<ResourceHandle>()[i].resource, value->ZerosLike(context));
  }
  return zeros;
}

absl::StatusOr<Tensor> AddTensors(const Tensor& a, const Tensor& b, KernelContext& context) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot add ", TypeString(a.dtype(), a.shape()), " and ",
                                                   TypeString(b.dtype(), b.shape())));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor sum, context.AllocateTemporary(a.dtype(), a.shape()));
  if (a.dtype() == DType::kVariant) {
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      const VariantValue* const x = ValueOf(a.flat<ResourceHandle>()[i]);
      const VariantValue* const y = ValueOf(b.flat<ResourceHandle>()[i]);
      if (x == nullptr || y == nullptr)
        return absl::InvalidArgumentError("cannot add a variant without a value");
      WEIR_ASSIGN_OR_RETURN(sum.flat<ResourceHandle>()[i].resource, x->Add(*y, context));
    }
    return sum;
  }
  const bool is_number = WithNumericType(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::transform(a.flat<T>().begin(), a.flat<T>().end(), b.flat<T>().begin(), sum.flat<T>().begin(),
                   &Sum<T>);
  });
  if (is_number) return sum;
  return absl::InvalidArgumentError(absl::StrCat("cannot add tensors of ", DTypeName(a.dtype())));
}

}  // namespace weir
