// RandomDataset: numbers without end, of 32 bits each, TensorFlow's for equal seeds.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/data/random_numbers.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class RandomDataset final : public Dataset {
 public:
  RandomDataset(Signature signature, int64_t seed, int64_t seed2, bool changes_seeds)
      : Dataset(std::move(signature)), seeds_(seed, seed2, changes_seeds) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new RandomIterator(RefPtr<const RandomDataset>::Share(this)));
  }
  int64_t cardinality() const override { return kInfinite; }

 private:
  class RandomIterator final : public Iterator {
   public:
    explicit RandomIterator(RefPtr<const RandomDataset> dataset)
        : dataset_(std::move(dataset)),
          seeds_(dataset_->seeds_.Next()),
          numbers_(seeds_.first, seeds_.second) {}

    absl::StatusOr<bool> Next(IteratorContext&, Element* element) override {
      *element = {Tensor::Scalar<int64_t>(numbers_.Next())};
      return true;
    }
    absl::Status Save(IteratorContext&, PositionWriter& position) override {
      position.Add(seeds_.first);
      position.Add(seeds_.second);
      position.Add(static_cast<int64_t>(numbers_.drawn()));
      position.Add(static_cast<int64_t>(dataset_->seeds_.num_drawn()));
      return absl::OkStatus();
    }
    absl::Status Restore(IteratorContext&, PositionReader& position) override {
      WEIR_ASSIGN_OR_RETURN(seeds_.first, position.NextNumber());
      WEIR_ASSIGN_OR_RETURN(seeds_.second, position.NextNumber());
      WEIR_ASSIGN_OR_RETURN(const int64_t drawn, position.NextNumber(0, INT64_MAX));
      numbers_ = RandomNumbers(seeds_.first, seeds_.second);
      numbers_.Skip(static_cast<uint64_t>(drawn));
      WEIR_ASSIGN_OR_RETURN(const int64_t drawn_of_dataset, position.NextNumber(0, INT64_MAX));
      position.OnAccepted([dataset = dataset_, drawn_of_dataset] {
        dataset->seeds_.GoTo(static_cast<uint64_t>(drawn_of_dataset));
      });
      return absl::OkStatus();
    }

   private:
    const RefPtr<const RandomDataset> dataset_;
    IteratorSeeds::Pair seeds_;
    RandomNumbers numbers_;
  };

  mutable IteratorSeeds seeds_;
};

// Inputs: seed, seed2, of V2 also a DummySeedGenerator's handle.
class Random final : public DatasetKernel {
 public:
  explicit Random(const KernelConstruction& construction)
      : DatasetKernel(construction),
        changes_seeds_(construction.node().FindAttr("rerandomize_each_iteration") != nullptr &&
                       construction.attr<bool>("rerandomize_each_iteration")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(const int64_t seed, ReadInteger(context.input(0), "seed"));
    WEIR_ASSIGN_OR_RETURN(const int64_t seed2, ReadInteger(context.input(1), "seed2"));
    WEIR_RETURN_IF_ERROR(CheckTypes(signature.types, {DType::kInt64}));
    return SetDataset<RandomDataset>(context, signature, seed, seed2, changes_seeds_);
  }

  const bool changes_seeds_;
};

}  // namespace

void RegisterRandomSourceKernels(DeviceKernels& kernels) {
  kernels.Add<Random>("RandomDataset");
  kernels.Add<Random>("RandomDatasetV2");
}

}  // namespace weir
