#include "kernels/cpu/data_flow/queue_batch.h"

#include <algorithm>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/strided_copy.h"

namespace weir {
namespace {

// The dimensions that hold every element.
Dims LargestDims(const std::vector<QueueElement>& elements, int component, const PartialShape& shape) {
  Dims dims;
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t largest = shape.dim(i);
    if (largest == PartialShape::kUnknownDim) {
      largest = 0;
      for (const QueueElement& element : elements) {
        largest = std::max(largest, element[component].shape().dim(i));
      }
    }
    dims.push_back(largest);
  }
  return dims;
}

}  // namespace

absl::StatusOr<QueueElement> ElementOfBatch(const std::vector<Tensor>& batch, int64_t index,
                                            Allocator& allocator) {
  QueueElement element;
  for (const Tensor& component : batch) {
    const Shape shape(component.shape().dims().subspan(1));
    WEIR_ASSIGN_OR_RETURN(Tensor slice, Tensor::Allocate(component.dtype(), shape, allocator));
    CopyElements(component, index * shape.num_elements(), slice, 0, shape.num_elements());
    element.push_back(std::move(slice));
  }
  return element;
}

absl::StatusOr<Tensor> BatchOfElements(const std::vector<QueueElement>& elements, int component, DType dtype,
                                       const PartialShape& shape, Allocator& allocator, ThreadPool& threads) {
  Dims dims = LargestDims(elements, component, shape);
  const Dims slot = dims;
  dims.insert(dims.begin(), static_cast<int64_t>(elements.size()));
  WEIR_ASSIGN_OR_RETURN(const Shape batch_shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor batch, Tensor::Allocate(dtype, batch_shape, allocator));
  const Dims strides = RowMajorStrides(slot);
  const int64_t size = elements.empty() ? 0 : batch.num_elements() / static_cast<int64_t>(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    const Tensor& element = elements[i][component];
    const int64_t offset = static_cast<int64_t>(i) * size;
    if (element.num_elements() == size) {
      CopyElements(element, 0, batch, offset, size);
      continue;
    }
    ClearElements(batch, offset, size);
    StridedCopy(element.shape().dims(), element, {0, RowMajorStrides(element.shape().dims())}, batch,
                {offset, strides}, threads);
  }
  return batch;
}

}  // namespace weir
