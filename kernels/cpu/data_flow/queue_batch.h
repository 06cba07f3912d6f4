// Elements of a queue as slices of a batch, and back.
//
// Thread safety: pure functions. Errors: ResourceExhausted when memory runs out; InvalidArgument for a batch
// whose size overflows.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/allocator.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/data_flow/queue_order.h"
#include "kernels/thread_pool.h"

namespace weir {

// Slice `index` of each component, copied: an element must not keep its batch alive. Precondition: every
// component has such a slice.
absl::StatusOr<QueueElement> ElementOfBatch(const std::vector<Tensor>& batch, int64_t index,
                                            Allocator& allocator);

// Component `component` of all elements as one tensor. An element that is smaller than others is padded at
// its end with zeros, empty strings or false. `shape`: that of an element; where it has unknown dimensions
// the largest element counts. Precondition: the elements have that shape.
absl::StatusOr<Tensor> BatchOfElements(const std::vector<QueueElement>& elements, int component, DType dtype,
                                       const PartialShape& shape, Allocator& allocator, ThreadPool& threads);

}  // namespace weir
