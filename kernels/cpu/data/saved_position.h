// A saved position of an iterator (iterator_position.h) as the value of a variant: on its way between steps,
// and to and from checkpoints, in which it is a string.
//
// Format of the string: kMagic, then for each tensor its length in bytes as 8 little-endian bytes and a
// serialized TensorProto. With the highest bit of the length set, it is a tensor of variants that are
// tensors, parts of sparse ones: what follows is such a string of its shape and these tensors. It is Weir's
// own: TensorFlow's names the parts of its own iterators.
//
// Immutable; the functions are pure. Strings may be anybody's: InvalidArgument for what is no position, or
// would take much more memory than the string has bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/data_flow/variant_value.h"

namespace weir {

class SavedPosition final : public VariantValue {
 public:
  static constexpr char kTypeName[] = "IteratorPosition";
  explicit SavedPosition(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}

  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::string ToString() const override { return "the position of an iterator"; }
  int depth() const override { return kMaxDepth / 2; }  // it may hold elements that are variants
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override;
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override;

 private:
  const std::vector<Tensor> tensors_;
};

// A tensor of variants as one of strings. InvalidArgument for other variants, and for positions that hold
// handles, or variants that are no tensors: elements that are datasets, ragged tensors or compressed wait in
// a buffer. ResourceExhausted for more than 2^31 - 1 bytes of elements, each counted as often as it is
// referred to.
absl::StatusOr<Tensor> StringsOfPositions(const Tensor& variants);
absl::StatusOr<Tensor> PositionsOfStrings(const Tensor& strings);

}  // namespace weir
