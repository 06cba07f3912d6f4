// Datasets of the elements of several: one dataset after another, side by side, and in the order that one of
// them says.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class ConcatenateDataset;
class ConcatenateIterator final : public IteratorOverInput {
 public:
  ConcatenateIterator(RefPtr<const ConcatenateDataset> dataset, IteratorPtr first)
      : IteratorOverInput(std::move(first)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(int64_t{is_second_});
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  absl::Status BeginSecond(IteratorContext& context);

  const RefPtr<const ConcatenateDataset> dataset_;
  bool is_second_ = false;
};

class ConcatenateDataset final : public Dataset {
 public:
  ConcatenateDataset(Signature signature, DatasetPtr first, DatasetPtr second)
      : Dataset(std::move(signature)), first_(std::move(first)), second_(std::move(second)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(IteratorPtr first, first_->MakeIterator(context));
    return IteratorPtr(
        new ConcatenateIterator(RefPtr<const ConcatenateDataset>::Share(this), std::move(first)));
  }
  int64_t cardinality() const override {
    const int64_t first = first_->cardinality(), second = second_->cardinality();
    if (first == kInfinite || second == kInfinite) return kInfinite;
    if (first == kUnknown || second == kUnknown) return kUnknown;
    return first > INT64_MAX - second ? INT64_MAX : first + second;
  }
  const Dataset& second() const { return *second_; }

  absl::Status CheckAnyOrder() const override {
    WEIR_RETURN_IF_ERROR(first_->CheckAnyOrder());
    return second_->CheckAnyOrder();
  }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    const int64_t first = first_->cardinality();
    if (first < 0) return first_->Get(context, index);  // an error
    return index < first ? first_->Get(context, index) : second_->Get(context, index - first);
  }

  const DatasetPtr first_;
  const DatasetPtr second_;
};

absl::Status ConcatenateIterator::BeginSecond(IteratorContext& context) {
  WEIR_ASSIGN_OR_RETURN(input_, dataset_->second().MakeIterator(context));
  is_second_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> ConcatenateIterator::Next(IteratorContext& context, Element* element) {
  WEIR_ASSIGN_OR_RETURN(bool has_element, input_->Next(context, element));
  if (has_element || is_second_) return has_element;
  WEIR_RETURN_IF_ERROR(BeginSecond(context));
  return input_->Next(context, element);
}

absl::Status ConcatenateIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(const bool is_second, position.NextNumber(0, 1));
  if (is_second) WEIR_RETURN_IF_ERROR(BeginSecond(context));
  return IteratorOverInput::Restore(context, position);
}

// One element of each dataset, with the components of all; over with the first that is. Behind an error of
// one dataset the others go on too: elements keep their partners.
class ZipIterator final : public Iterator {
 public:
  explicit ZipIterator(std::vector<IteratorPtr> inputs) : inputs_(std::move(inputs)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    if (is_over_) return false;
    element->clear();
    absl::Status first_error;
    for (const IteratorPtr& input : inputs_) {
      Element part;
      const absl::StatusOr<bool> has_element = input->Next(context, &part);
      if (!has_element.ok() && context.cancellation.is_cancelled()) return has_element.status();
      first_error.Update(has_element.status());
      if (has_element.ok() && !*has_element) {
        is_over_ = first_error.ok();
        break;
      }
      for (Tensor& tensor : part) element->push_back(std::move(tensor));
    }
    if (!first_error.ok()) return first_error;
    return !is_over_;
  }
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(int64_t{is_over_});
    for (const IteratorPtr& input : inputs_) WEIR_RETURN_IF_ERROR(input->Save(context, position));
    return absl::OkStatus();
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override {
    WEIR_ASSIGN_OR_RETURN(is_over_, position.NextNumber(0, 1));
    for (const IteratorPtr& input : inputs_) WEIR_RETURN_IF_ERROR(input->Restore(context, position));
    return absl::OkStatus();
  }

 private:
  const std::vector<IteratorPtr> inputs_;
  bool is_over_ = false;
};

class ZipDataset final : public Dataset {
 public:
  ZipDataset(Signature signature, std::vector<DatasetPtr> inputs)
      : Dataset(std::move(signature)), inputs_(std::move(inputs)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    std::vector<IteratorPtr> inputs;
    for (const DatasetPtr& input : inputs_) {
      WEIR_ASSIGN_OR_RETURN(IteratorPtr iterator, input->MakeIterator(context));
      inputs.push_back(std::move(iterator));
    }
    return IteratorPtr(new ZipIterator(std::move(inputs)));
  }
  int64_t cardinality() const override {
    int64_t shortest = kInfinite;
    for (const DatasetPtr& input : inputs_) {
      const int64_t one = input->cardinality();
      if (one == kUnknown) return kUnknown;
      if (one != kInfinite && (shortest == kInfinite || one < shortest)) shortest = one;
    }
    return shortest;
  }

 private:
  absl::Status CheckAnyOrder() const override {
    for (const DatasetPtr& input : inputs_) WEIR_RETURN_IF_ERROR(input->CheckAnyOrder());
    return absl::OkStatus();
  }
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    Element element;
    for (const DatasetPtr& input : inputs_) {
      WEIR_ASSIGN_OR_RETURN(Element part, input->Get(context, index));
      for (Tensor& tensor : part) element.push_back(std::move(tensor));
    }
    return element;
  }

  const std::vector<DatasetPtr> inputs_;
};

// The next number of the selector says of which dataset the next element is. One that is over is passed by,
// or is the end.
class DirectedInterleaveDataset final : public Dataset {
 public:
  DirectedInterleaveDataset(Signature signature, DatasetPtr selector, std::vector<DatasetPtr> inputs,
                            bool stops_on_empty)
      : Dataset(std::move(signature)),
        selector_(std::move(selector)),
        inputs_(std::move(inputs)),
        stops_on_empty_(stops_on_empty) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override;
  // As TensorFlow's, also where the selector ends.
  int64_t cardinality() const override {
    for (const DatasetPtr& input : inputs_) {
      if (input->cardinality() == kInfinite) return kInfinite;
    }
    return kUnknown;
  }
  bool stops_on_empty() const { return stops_on_empty_; }

 private:
  const DatasetPtr selector_;
  const std::vector<DatasetPtr> inputs_;
  const bool stops_on_empty_;
};

class DirectedInterleaveIterator final : public Iterator {
 public:
  DirectedInterleaveIterator(RefPtr<const DirectedInterleaveDataset> dataset, IteratorPtr selector,
                             std::vector<IteratorPtr> inputs)
      : dataset_(std::move(dataset)),
        selector_(std::move(selector)),
        inputs_(std::move(inputs)),
        is_over_(inputs_.size(), false) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    while (num_over_ < inputs_.size()) {
      if (context.cancellation.is_cancelled()) return context.cancellation.reason();
      Element selected;
      WEIR_ASSIGN_OR_RETURN(const bool has_selected, selector_->Next(context, &selected));
      if (!has_selected) break;
      if (selected[0].num_elements() != 1) {
        return absl::InvalidArgumentError("Selector must be a scalar.");
      }
      const auto index = selected[0].scalar<int64_t>();
      if (index < 0 || index >= static_cast<int64_t>(inputs_.size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("Selector index out of range: ", index, " >= ", inputs_.size()));
      }
      if (is_over_[index]) continue;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, inputs_[index]->Next(context, element));
      if (has_element) return true;
      is_over_[index] = true;
      ++num_over_;
      if (dataset_->stops_on_empty()) num_over_ = inputs_.size();
    }
    num_over_ = inputs_.size();
    return false;
  }

  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(static_cast<int64_t>(num_over_));
    WEIR_RETURN_IF_ERROR(selector_->Save(context, position));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      position.Add(int64_t{is_over_[i]});
      WEIR_RETURN_IF_ERROR(inputs_[i]->Save(context, position));
    }
    return absl::OkStatus();
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override {
    WEIR_ASSIGN_OR_RETURN(num_over_, position.NextNumber(0, static_cast<int64_t>(inputs_.size())));
    WEIR_RETURN_IF_ERROR(selector_->Restore(context, position));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(is_over_[i], position.NextNumber(0, 1));
      WEIR_RETURN_IF_ERROR(inputs_[i]->Restore(context, position));
    }
    return absl::OkStatus();
  }

 private:
  const RefPtr<const DirectedInterleaveDataset> dataset_;
  const IteratorPtr selector_;
  const std::vector<IteratorPtr> inputs_;
  std::vector<bool> is_over_;
  size_t num_over_ = 0;
};

absl::StatusOr<IteratorPtr> DirectedInterleaveDataset::MakeIterator(IteratorContext& context) const {
  WEIR_ASSIGN_OR_RETURN(IteratorPtr selector, selector_->MakeIterator(context));
  std::vector<IteratorPtr> inputs;
  for (const DatasetPtr& input : inputs_) {
    WEIR_ASSIGN_OR_RETURN(IteratorPtr iterator, input->MakeIterator(context));
    inputs.push_back(std::move(iterator));
  }
  return IteratorPtr(new DirectedInterleaveIterator(RefPtr<const DirectedInterleaveDataset>::Share(this),
                                                    std::move(selector), std::move(inputs)));
}

class Concatenate final : public DatasetKernel {
 public:
  explicit Concatenate(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr first, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(DatasetPtr second, DatasetInput(context, 1));
    if (first->signature().types != second->signature().types) {
      return absl::InvalidArgumentError("input dataset and another dataset have different output_types");
    }
    return SetDataset<ConcatenateDataset>(context, signature, std::move(first), std::move(second));
  }
};

class Zip final : public DatasetKernel {
 public:
  explicit Zip(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    std::vector<DatasetPtr> inputs;
    std::vector<DType> given;
    for (int i = 0; i < context.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, i));
      given.insert(given.end(), input->signature().types.begin(), input->signature().types.end());
      inputs.push_back(std::move(input));
    }
    WEIR_RETURN_IF_ERROR(CheckTypes(signature.types, given));
    return SetDataset<ZipDataset>(context, signature, std::move(inputs));
  }
};

class DirectedInterleave final : public DatasetKernel {
 public:
  explicit DirectedInterleave(const KernelConstruction& construction)
      : DatasetKernel(construction), stops_on_empty_(construction.attr<bool>("stop_on_empty_dataset")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr selector, DatasetInput(context, 0, {DType::kInt64}));
    std::vector<DatasetPtr> inputs;
    for (int i = 1; i < context.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, i, signature.types));
      inputs.push_back(std::move(input));
    }
    return SetDataset<DirectedInterleaveDataset>(context, signature, std::move(selector), std::move(inputs),
                                                 stops_on_empty_);
  }

  const bool stops_on_empty_;
};

}  // namespace

void RegisterJoiningKernels(DeviceKernels& kernels) {
  kernels.Add<Concatenate>("ConcatenateDataset");
  kernels.Add<Zip>("ZipDataset");
  kernels.Add<DirectedInterleave>("DirectedInterleaveDataset");
}

}  // namespace weir
