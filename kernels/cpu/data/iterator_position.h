// Where an iterator is: what SerializeIterator saves.
//
// A list of tensors. Each iterator writes what it needs, and those below it, in an order of its own, and
// reads the same. A position that was saved by another pipeline is InvalidArgument, as far as it can be told;
// whatever it says, an iterator checks that it stays within its bounds, and one that is refused changes
// nothing that other iterators of the dataset have.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"

namespace weir {

class PositionWriter {
 public:
  void Add(Tensor tensor) { tensors_.push_back(std::move(tensor)); }
  void Add(int64_t number) { Add(Tensor::Scalar<int64_t>(number)); }
  void Add(const std::vector<Tensor>& element) {
    Add(static_cast<int64_t>(element.size()));
    for (const Tensor& tensor : element) Add(tensor);
  }
  // An element, or the error in its place.
  void Add(const absl::StatusOr<std::vector<Tensor>>& outcome) {
    Add(static_cast<int64_t>(outcome.status().code()));
    if (!outcome.ok()) return Add(Tensor::Scalar(outcome.status().message()));
    Add(*outcome);
  }
  std::vector<Tensor> Take() { return std::move(tensors_); }

 private:
  std::vector<Tensor> tensors_;
};

class PositionReader {
 public:
  explicit PositionReader(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}

  absl::StatusOr<Tensor> Next();
  absl::StatusOr<int64_t> NextNumber();
  // A number in [min, max].
  absl::StatusOr<int64_t> NextNumber(int64_t min, int64_t max);
  // An element of these types.
  absl::StatusOr<std::vector<Tensor>> NextElement(absl::Span<const DType> types, bool may_be_empty = false);
  absl::Status NextOutcome(absl::Span<const DType> types, absl::StatusOr<std::vector<Tensor>>* outcome);
  // What it changes of a dataset, for all its iterators: not before the whole position is known to be good.
  void OnAccepted(std::function<void()> change) { changes_.push_back(std::move(change)); }
  // InvalidArgument when something is left; otherwise makes these changes, in their order.
  absl::Status Accept();

 private:
  std::vector<Tensor> tensors_;
  size_t next_ = 0;
  std::vector<std::function<void()>> changes_;
};

}  // namespace weir
