#include "kernels/cpu/data/list_dataset.h"

#include <algorithm>

namespace weir {
namespace {

class ListIterator final : public Iterator {
 public:
  explicit ListIterator(RefPtr<const ListDataset> dataset) : dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext&, Element* element) override {
    if (next_ == dataset_->cardinality()) return false;
    *element = dataset_->elements()[next_++];
    return true;
  }
  absl::Status Save(IteratorContext&, PositionWriter& position) override {
    position.Add(next_);
    return absl::OkStatus();
  }
  absl::Status Restore(IteratorContext&, PositionReader& position) override {
    WEIR_ASSIGN_OR_RETURN(next_, position.NextNumber(0, dataset_->cardinality()));
    return absl::OkStatus();
  }

 private:
  const RefPtr<const ListDataset> dataset_;
  int64_t next_ = 0;
};

}  // namespace

absl::StatusOr<Tensor> ListDataset::Variant(Signature signature, HeldElements elements) {
  int stages = 1;
  for (const Element& element : elements.elements()) {
    WEIR_ASSIGN_OR_RETURN(const int over, StagesOver(element));
    stages = std::max(stages, over);
  }
  auto dataset = MakeRef<ListDataset>(std::move(signature), std::move(elements));
  dataset->set_stages(stages);
  return VariantOf(std::move(dataset));
}

absl::StatusOr<IteratorPtr> ListDataset::MakeIterator(IteratorContext&) const {
  return IteratorPtr(new ListIterator(RefPtr<const ListDataset>::Share(this)));
}

}  // namespace weir
