#include "kernels/kernel_context.h"

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<Tensor*> KernelContext::AllocateOutput(int index, const Shape& shape) {
  const DType dtype = output_types_[index];
  Tensor& slot = output(index);
  // Nearly every output comes this way; no Tensor is moved through a StatusOr.
  int64_t num_bytes = 0;
  if (IsPlainBytes(dtype) && dtype != DType::kInvalid &&
      MultiplyWithoutOverflow(shape.num_elements(), DTypeSize(dtype), &num_bytes)) {
    if (RefPtr<Buffer> buffer = AllocatorOf(index).Allocate(num_bytes)) {
      slot = Tensor(dtype, shape, std::move(buffer));
      return &slot;
    }
  }
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(dtype, shape, AllocatorOf(index));
  if (!tensor.ok()) return tensor.status();
  slot = *std::move(tensor);
  return &slot;
}

bool KernelContext::CanForward(int input_index, DType dtype, const Shape& shape) const {
  const Tensor& tensor = input(input_index);
  return last_use_[input_index] && tensor.dtype() == dtype && tensor.num_elements() == shape.num_elements() &&
         tensor.has_exclusive_buffer();
}

absl::StatusOr<Tensor*> KernelContext::ForwardOrAllocateOutput(std::initializer_list<int> candidates,
                                                               int index, const Shape& shape) {
  for (int candidate : candidates) {
    if (!CanForward(candidate, output_types_[index], shape)) continue;
    Tensor& slot = output(index);
    // The input's slot keeps its reference until the executor clears it after this call: a kernel may look at
    // input(candidate) while it fills the output.
    slot = input(candidate).WithShape(shape);
    return &slot;
  }
  return AllocateOutput(index, shape);
}

absl::StatusOr<Tensor> KernelContext::AllocateTemporary(DType dtype, const Shape& shape) {
  return Tensor::Allocate(dtype, shape, allocator());
}

absl::StatusOr<const ResourceHandle*> HandleInput(const KernelContext& context, int input) {
  const Tensor& tensor = context.input(input);
  if (tensor.dtype() != DType::kResource || tensor.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", input, " must be one resource handle, is ", tensor.ToString(4)));
  }
  const ResourceHandle& handle = tensor.scalar<ResourceHandle>();
  if (handle.resource != nullptr) return &handle;
  // Whoever wrote a message may have a resource of this name on another device.
  if (const std::string device = context.device().name().ToString(); handle.device != device) {
    return absl::InvalidArgumentError(absl::StrCat("Trying to access resource ", handle.name,
                                                   " located in device ", handle.device, " from device ",
                                                   device));
  }
  return &handle;
}

}  // namespace weir
