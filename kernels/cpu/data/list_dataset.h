// A dataset of elements that are there: what a window or a group is handed on as.
#pragma once

#include <utility>
#include <vector>

#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/data/held_elements.h"

namespace weir {

class ListDataset final : public Dataset {
 public:
  ListDataset(Signature signature, HeldElements elements)
      : Dataset(std::move(signature)), elements_(std::move(elements)) {
    for (const Element& element : elements_.elements()) num_bytes_ += NumBytes(element);
  }

  // The variant of one. InvalidArgument when the elements are made of too many datasets.
  static absl::StatusOr<Tensor> Variant(Signature signature, HeldElements elements);

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override;
  int64_t cardinality() const override { return elements_.size(); }
  absl::Status CheckAnyOrder() const override { return absl::OkStatus(); }
  int64_t num_bytes() const override { return num_bytes_; }
  const HeldElements& elements() const { return elements_; }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext&, int64_t index) const override {
    return elements_[index];
  }

  const HeldElements elements_;
  int64_t num_bytes_ = 0;
};

}  // namespace weir
