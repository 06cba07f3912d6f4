// Datasets of the same elements as others: kept after the first pass (Cache), computed ahead (Prefetch). And
// how many there are.
//
// A cache is its dataset's: what the first pass that comes to its end has given, all later ones give. A
// prefetch holds buffer_size elements (-1: kAutomatic), and their bytes are bounded (ahead.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/ahead.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kAutomatic = 16;

class CacheDataset;
class CacheIterator final : public IteratorOverInput {
 public:
  CacheIterator(RefPtr<const CacheDataset> dataset, IteratorPtr input);

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  using Elements = std::vector<Element>;

  const RefPtr<const CacheDataset> dataset_;
  std::shared_ptr<const Elements> kept_;  // all elements; null in a first pass
  std::shared_ptr<Elements> gathered_;    // of a first pass
  int64_t next_ = 0;                      // of those that are kept
};

class CacheDataset final : public DatasetOverInput<CacheDataset, CacheIterator> {
 public:
  using DatasetOverInput::DatasetOverInput;
  using Elements = std::vector<Element>;

  std::shared_ptr<const Elements> kept() const {
    absl::MutexLock lock(&mutex_);
    return kept_;
  }
  void Keep(std::shared_ptr<const Elements> all) const {
    absl::MutexLock lock(&mutex_);
    if (kept_ == nullptr) kept_ = std::move(all);
  }

  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input().Get(context, index);
  }

  mutable absl::Mutex mutex_;
  mutable std::shared_ptr<const Elements> kept_ ABSL_GUARDED_BY(mutex_);
};

CacheIterator::CacheIterator(RefPtr<const CacheDataset> dataset, IteratorPtr input)
    : IteratorOverInput(std::move(input)),
      dataset_(std::move(dataset)),
      kept_(dataset_->kept()),
      gathered_(std::make_shared<Elements>()) {}

absl::StatusOr<bool> CacheIterator::Next(IteratorContext& context, Element* element) {
  if (kept_ != nullptr) {
    if (next_ == static_cast<int64_t>(kept_->size())) return false;
    *element = (*kept_)[next_++];
    return true;
  }
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
  if (has_element) {
    gathered_->push_back(*element);
    return true;
  }
  dataset_->Keep(gathered_);
  kept_ = std::move(gathered_);
  next_ = static_cast<int64_t>(kept_->size());
  return false;
}

absl::Status CacheIterator::Save(IteratorContext& context, PositionWriter& position) {
  position.Add(int64_t{kept_ != nullptr});
  const Elements& held = kept_ != nullptr ? *kept_ : *gathered_;
  position.Add(static_cast<int64_t>(held.size()));
  for (const Element& element : held) position.Add(element);
  position.Add(next_);
  return kept_ != nullptr ? absl::OkStatus() : IteratorOverInput::Save(context, position);
}

absl::Status CacheIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(const bool is_kept, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(const int64_t size, position.NextNumber(0, INT64_MAX));
  auto held = std::make_shared<Elements>();
  for (int64_t i = 0; i < size; ++i) {
    WEIR_ASSIGN_OR_RETURN(Element element, position.NextElement(dataset_->signature().types));
    held->push_back(std::move(element));
  }
  WEIR_ASSIGN_OR_RETURN(next_, position.NextNumber(0, size));
  kept_ = nullptr;
  if (!is_kept) {
    gathered_ = std::move(held);
    return IteratorOverInput::Restore(context, position);
  }
  kept_ = std::move(held);
  position.OnAccepted([dataset = dataset_, kept = kept_] { dataset->Keep(kept); });
  return absl::OkStatus();
}

class Cache final : public DatasetKernel {
 public:
  explicit Cache(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    const Tensor& file = context.input(1);
    if (file.num_elements() != 1) return absl::InvalidArgumentError("filename must be a scalar");
    if (!file.scalar<std::string>().empty()) {
      return absl::UnimplementedError(absl::StrCat("a cache in files ('", file.scalar<std::string>(),
                                                   "') is not there yet; one in memory is: cache()"));
    }
    return SetDataset<CacheDataset>(context, signature, std::move(input));
  }
};

class PrefetchDataset final : public Dataset {
 public:
  PrefetchDataset(Signature signature, DatasetPtr input, int64_t buffer_size)
      : Dataset(std::move(signature)), input_(std::move(input)), buffer_size_(buffer_size) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(IteratorPtr input, input_->MakeIterator(context));
    return IteratorPtr(new AheadIterator(DatasetPtr::Share(this), std::move(input), buffer_size_));
  }
  int64_t cardinality() const override { return input_->cardinality(); }

  absl::Status CheckAnyOrder() const override { return input_->CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input_->Get(context, index);
  }

  const DatasetPtr input_;
  const int64_t buffer_size_;
};

class Prefetch final : public DatasetKernel {
 public:
  explicit Prefetch(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t buffer_size, ReadInteger(context.input(1), "buffer_size"));
    if (buffer_size < -1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning, is ", buffer_size));
    }
    return SetDataset<PrefetchDataset>(context, signature, std::move(input),
                                       buffer_size == -1 ? kAutomatic : buffer_size);
  }
};

absl::Status Cardinality(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  output->flat<int64_t>()[0] = dataset->cardinality();
  return absl::OkStatus();
}

}  // namespace

void RegisterKeepingKernels(DeviceKernels& kernels) {
  kernels.Add<Cache>("CacheDataset");
  kernels.Add<Prefetch>("PrefetchDataset");
  kernels.Add<&Cardinality>("DatasetCardinality");
}

}  // namespace weir
