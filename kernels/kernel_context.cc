#include "kernels/kernel_context.h"

namespace weir {

absl::StatusOr<Tensor*> KernelContext::AllocateOutput(int index, const Shape& shape) {
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(output_types_[index], shape, device_.allocator());
  if (!tensor.ok()) return tensor.status();
  Tensor& slot = output(index);
  slot = *std::move(tensor);
  return &slot;
}

bool KernelContext::CanForward(int input_index, DType dtype, const Shape& shape) const {
  const Tensor& tensor = input(input_index);
  return last_use_[input_index] && tensor.dtype() == dtype && tensor.num_elements() == shape.num_elements() &&
         tensor.has_exclusive_buffer();
}

absl::StatusOr<Tensor*> KernelContext::ForwardOrAllocateOutput(std::initializer_list<int> candidates, int index,
                                                               const Shape& shape) {
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
  return Tensor::Allocate(dtype, shape, device_.allocator());
}

}  // namespace weir
