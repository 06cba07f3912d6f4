// What a RankLinks may be, too: links on which a rank can look for parts itself, instead of waiting to be
// woken (memory_links.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/collective_signature.h"
#include "graph/types/shape.h"

namespace weir {

class PartLooker {
 public:
  virtual ~PartLooker() = default;

  // Before the part of a small collective is sent: whether Look follows on this thread.
  virtual bool BeginLook(uint64_t generation) = 0;
  // Takes parts of others on this thread, until `is_over` or for a moment.
  virtual void Look(uint64_t generation, absl::FunctionRef<bool()> is_over) = 0;
};

// Whether each rank sends its whole tensor in one part, and owes nothing afterwards.
inline bool IsSmall(const CollectiveSignature& signature) {
  if (signature.kind != CollectiveSignature::Kind::kAllReduce || signature.reduction == Reduction::kAdasum) {
    return false;
  }
  const DType dtype = signature.wire == DType::kInvalid ? signature.dtype : signature.wire;
  const absl::StatusOr<Shape> shape = Shape::FromDims(signature.dims);
  const auto element_bytes = static_cast<int64_t>(std::max<size_t>(1, DTypeSize(dtype)));
  return shape.ok() && shape->num_elements() <= Collective::kWholeBytes / element_bytes;
}

}  // namespace weir
