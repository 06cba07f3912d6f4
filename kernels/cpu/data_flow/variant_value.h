// What an element of a kVariant tensor holds, as the `resource` of a handle without a name: a list of
// tensors, an optional. It never leaves the process: messages, files and transports refuse it.
//
// Values are shared, and not changed once they are. Who holds the only reference of both the tensor's buffer
// and the value may change it (MutableVariant).
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/resource_handle.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/kernel_context.h"

namespace weir {

class VariantValue : public Resource {
 public:
  // How deep values of variants lie in each other; 1 for one without others. What is deep is destroyed by
  // calls as deep, so it is limited.
  static constexpr int kMaxDepth = 100;
  virtual int depth() const = 0;
  // The same with zeros in place of the tensors' elements.
  virtual absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const = 0;
  // InvalidArgument when `other` is of another kind, or does not fit.
  virtual absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other,
                                                   KernelContext& context) const = 0;
};

// The depth of a value that holds `tensor`. InvalidArgument when that is too deep.
absl::StatusOr<int> DepthAround(const Tensor& tensor);

Tensor VariantOf(RefPtr<VariantValue> value);

// The sum of two tensors of one dtype and shape; of variants, element by element.
absl::StatusOr<Tensor> AddTensors(const Tensor& a, const Tensor& b, KernelContext& context);
absl::StatusOr<Tensor> ZerosLikeTensor(const Tensor& tensor, KernelContext& context);

// The value of input `index`. InvalidArgument when that is not one variant of a T.
template <typename T>
absl::StatusOr<const T*> VariantInput(const KernelContext& context, int index) {
  const Tensor& tensor = context.input(index);
  if (tensor.dtype() == DType::kVariant && tensor.num_elements() == 1) {
    if (const auto* value = dynamic_cast<const T*>(tensor.scalar<ResourceHandle>().resource.get()))
      return value;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("input ", index, " must be one ", T::kTypeName, ", is ", tensor.ToString(4)));
}

// The value of input `input`, as output `output`: the same one when nobody else holds it, otherwise a copy,
// which is a T's copy constructor's.
template <typename T>
absl::StatusOr<T*> MutableVariant(KernelContext& context, int input, int output) {
  WEIR_ASSIGN_OR_RETURN(const T* value, VariantInput<T>(context, input));
  WEIR_ASSIGN_OR_RETURN(Tensor * result, context.ForwardOrAllocateOutput({input}, output, Shape()));
  RefPtr<Resource>& held = result->flat<ResourceHandle>()[0].resource;
  if (held.get() != value || !held->has_one_owner()) held = MakeRef<T>(*value);
  return static_cast<T*>(held.get());
}

}  // namespace weir
