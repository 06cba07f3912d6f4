// Datasets of some elements of another: again and again, the first ones, those after them, every n-th.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/repeated.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class RepeatDataset;

// Makes its input anew for every pass.
class RepeatIterator final : public Iterator {
 public:
  explicit RepeatIterator(RefPtr<const RepeatDataset> dataset) : dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  const RefPtr<const RepeatDataset> dataset_;
  IteratorPtr input_;     // null between passes
  int64_t passes_ = 0;    // that are over
  bool is_first_ = true;  // nothing has come of this pass
  bool is_over_ = false;
};

class RepeatDataset final : public Dataset {
 public:
  RepeatDataset(Signature signature, DatasetPtr input, int64_t count)
      : Dataset(std::move(signature)), input_(std::move(input)), count_(count) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new RepeatIterator(RefPtr<const RepeatDataset>::Share(this)));
  }
  int64_t cardinality() const override {
    const int64_t once = input_->cardinality();
    if (count_ == 0 || once == 0) return 0;
    if (count_ < 0) return kInfinite;
    if (once < 0) return once;
    return once > INT64_MAX / count_ ? INT64_MAX : once * count_;
  }
  const Dataset& input() const { return *input_; }
  int64_t count() const { return count_; }  // negative: for ever

  absl::Status CheckAnyOrder() const override { return input_->CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input_->Get(context, index % input_->cardinality());
  }

  const DatasetPtr input_;
  const int64_t count_;
};

absl::StatusOr<bool> RepeatIterator::Next(IteratorContext& context, Element* element) {
  while (!is_over_ && (dataset_->count() < 0 || passes_ < dataset_->count())) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    if (input_ == nullptr) {
      WEIR_ASSIGN_OR_RETURN(input_, dataset_->input().MakeIterator(context));
      is_first_ = true;
    }
    WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
    if (has_element) {
      is_first_ = false;
      return true;
    }
    input_ = nullptr;
    ++passes_;
    // An empty dataset repeated for ever is empty.
    if (is_first_ && dataset_->count() < 0) is_over_ = true;
  }
  is_over_ = true;
  return false;
}

absl::Status RepeatIterator::Save(IteratorContext& context, PositionWriter& position) {
  position.Add(passes_);
  position.Add(int64_t{is_over_});
  position.Add(int64_t{is_first_});
  position.Add(int64_t{input_ != nullptr});
  return input_ == nullptr ? absl::OkStatus() : input_->Save(context, position);
}

absl::Status RepeatIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(passes_, position.NextNumber(0, INT64_MAX - 1));
  WEIR_ASSIGN_OR_RETURN(is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(is_first_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(const bool has_input, position.NextNumber(0, 1));
  input_ = nullptr;
  if (!has_input) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(input_, dataset_->input().MakeIterator(context));
  return input_->Restore(context, position);
}

// The first `count` elements; all when it is negative.
class TakeDataset;
class TakeIterator final : public CountingIterator<TakeDataset, INT64_MAX> {
 public:
  using CountingIterator::CountingIterator;
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
};

class TakeDataset final : public DatasetOverInput<TakeDataset, TakeIterator> {
 public:
  TakeDataset(Signature signature, DatasetPtr input, int64_t count)
      : DatasetOverInput(std::move(signature), std::move(input)), count_(count) {}
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    if (count_ < 0) return all;
    if (all == kUnknown) return kUnknown;
    return all == kInfinite ? count_ : std::min(all, count_);
  }
  int64_t count() const { return count_; }

  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input().Get(context, index);
  }

  const int64_t count_;
};

absl::StatusOr<bool> TakeIterator::Next(IteratorContext& context, Element* element) {
  if (dataset_->count() >= 0 && count_ >= dataset_->count()) return false;
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
  if (has_element && dataset_->count() >= 0) ++count_;
  return has_element;
}

// The elements after the first `count`; none when it is negative.
class SkipDataset;
class SkipIterator final : public CountingIterator<SkipDataset, INT64_MAX> {
 public:
  using CountingIterator::CountingIterator;
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
};

class SkipDataset final : public DatasetOverInput<SkipDataset, SkipIterator> {
 public:
  SkipDataset(Signature signature, DatasetPtr input, int64_t count)
      : DatasetOverInput(std::move(signature), std::move(input)), count_(count) {}
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    if (all < 0) return all;
    return count_ < 0 ? 0 : std::max<int64_t>(0, all - count_);
  }
  int64_t count() const { return count_; }

  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    if (input().cardinality() < 0) return input().Get(context, index);  // an error
    return input().Get(context, index + count_);
  }

  const int64_t count_;
};

absl::StatusOr<bool> SkipIterator::Next(IteratorContext& context, Element* element) {
  if (dataset_->count() < 0) return false;
  for (; count_ < dataset_->count(); ++count_) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    Element skipped;
    const absl::StatusOr<bool> has_element = input_->Next(context, &skipped);
    if (!has_element.ok()) {
      // As in TensorFlow the next call skips as many again.
      if (!context.cancellation.is_cancelled()) count_ = 0;
      return has_element;
    }
    if (!*has_element) return false;
  }
  return input_->Next(context, element);
}

// Element `index` of each `num_shards`.
class ShardDataset;
class ShardIterator final : public CountingIterator<ShardDataset, INT64_MAX - 1> {
 public:
  // count_: the next element of the input.
  using CountingIterator::CountingIterator;
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
};

class ShardDataset final : public DatasetOverInput<ShardDataset, ShardIterator> {
 public:
  ShardDataset(Signature signature, DatasetPtr input, int64_t num_shards, int64_t index, bool must_have_any)
      : DatasetOverInput(std::move(signature), std::move(input)),
        num_shards_(num_shards),
        index_(index),
        must_have_any_(must_have_any) {}
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    return all < 0 ? all : all / num_shards_ + (index_ < all % num_shards_ ? 1 : 0);
  }
  int64_t num_shards() const { return num_shards_; }
  int64_t index() const { return index_; }
  bool must_have_any() const { return must_have_any_; }

  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    if (input().cardinality() < 0) return input().Get(context, index);  // an error
    return input().Get(context, index * num_shards_ + index_);
  }

  const int64_t num_shards_;
  const int64_t index_;
  const bool must_have_any_;
};

absl::StatusOr<bool> ShardIterator::Next(IteratorContext& context, Element* element) {
  while (true) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
    if (!has_element) {
      if (!dataset_->must_have_any() || count_ == 0 || count_ >= dataset_->num_shards()) return false;
      return absl::InvalidArgumentError(absl::StrCat(
          "Could not apply FILE based sharding: Dataset has only ", count_, " elements for ",
          dataset_->num_shards(), " shards: the shard would have none, and require_non_empty is set"));
    }
    if (count_++ % dataset_->num_shards() == dataset_->index()) return true;
  }
}

template <typename D>
class CountKernel final : public DatasetKernel {
 public:
  explicit CountKernel(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t count, ReadInteger(context.input(1), "count"));
    return SetDataset<D>(context, signature, std::move(input), count);
  }
};

class Shard final : public DatasetKernel {
 public:
  explicit Shard(const KernelConstruction& construction)
      : DatasetKernel(construction), must_have_any_(construction.attr<bool>("require_non_empty")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_shards, ReadInteger(context.input(1), "num_shards"));
    WEIR_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(context.input(2), "index"));
    if (num_shards < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Number of shards must be greater than zero (currently num_shards = ", num_shards, ")."));
    }
    if (index < 0 || index >= num_shards) {
      return absl::InvalidArgumentError(
          absl::StrCat("Index must be between 0 and ", num_shards - 1, " (currently index = ", index, ")."));
    }
    return SetDataset<ShardDataset>(context, signature, std::move(input), num_shards, index, must_have_any_);
  }

  const bool must_have_any_;
};

// Inputs: dataset, num_workers, index. TensorFlow rewrites the pipeline, so that each worker reads files of
// its own where it finds any. Here each worker takes its elements of all, which is what TensorFlow does where
// it finds none.
class AutoShard final : public DatasetKernel {
 public:
  explicit AutoShard(const KernelConstruction& construction)
      : DatasetKernel(construction), policy_(construction.attr<int64_t>("auto_shard_policy")) {}

 private:
  // Of TensorFlow's AutoShardPolicy (core/framework/dataset_options.proto).
  static constexpr int64_t kAuto = 0, kFile = 1, kData = 2, kHint = 3, kOff = -1;

  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_workers, ReadInteger(context.input(1), "num_workers"));
    WEIR_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(context.input(2), "index"));
    if (num_workers < 1) {
      return absl::InvalidArgumentError(absl::StrCat("num_workers must be >= 1, currently ", num_workers));
    }
    if (index < 0 || index >= num_workers) {
      return absl::InvalidArgumentError(
          absl::StrCat("index must be >= 0 and < ", num_workers, ", currently ", index));
    }
    switch (policy_) {
      case kOff:
        context.set_output(0, context.input(0));
        return absl::OkStatus();
      case kAuto:
      case kData:
        return SetDataset<ShardDataset>(context, signature, std::move(input), num_workers, index,
                                        /*must_have_any=*/false);
      case kFile:
      case kHint:
        return absl::UnimplementedError(
            absl::StrCat("auto_shard_policy ", policy_ == kFile ? "FILE" : "HINT",
                         " rewrites the pipeline, which is not done here: shard the files' names before they "
                         "are read (Dataset.shard), or shard by elements (DATA)"));
      default:
        return absl::InvalidArgumentError(absl::StrCat("auto_shard_policy ", policy_, " is none"));
    }
  }

  const int64_t policy_;
};

}  // namespace

RefPtr<Dataset> RepeatedDataset(Dataset::Signature signature, DatasetPtr input, int64_t count) {
  return MakeRef<RepeatDataset>(std::move(signature), std::move(input), count);
}

void RegisterSelectionsKernels(DeviceKernels& kernels) {
  kernels.Add<CountKernel<RepeatDataset>>("RepeatDataset");
  kernels.Add<CountKernel<TakeDataset>>("TakeDataset");
  kernels.Add<CountKernel<SkipDataset>>("SkipDataset");
  kernels.Add<Shard>("ShardDataset");
  for (const char* op : {"AutoShardDataset", "ExperimentalAutoShardDataset"}) kernels.Add<AutoShard>(op);
}

}  // namespace weir
