// Elements by their number: GetElementAtIndex, and GlobalShuffleDataset, which takes all of them in a random
// order without a buffer.
//
// The order of a global shuffle is a permutation that is computed, not stored: a Feistel network over the
// smallest even number of bits that holds all indices, applied again while it leads outside of them. Its keys
// are Philox numbers of the iterator's seeds (random_numbers.h). It is not the order that TensorFlow has for
// the same seeds.
//
// Source of the method: J. Black, P. Rogaway: Ciphers with Arbitrary Finite Domains, 2002.
#include <array>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/random_numbers.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

class Permutation {
 public:
  // Of [0, count). Precondition: count > 0.
  Permutation(uint64_t count, const IteratorSeeds::Pair& seeds)
      : count_(count), half_bits_(std::max(1, (static_cast<int>(absl::bit_width(count - 1)) + 1) / 2)) {
    RandomNumbers numbers(seeds.first, seeds.second);
    for (uint64_t& key : keys_) {
      key = numbers.Next();
      key = key << 32 | numbers.Next();
    }
  }

  uint64_t operator()(uint64_t index) const {
    do index = Encrypted(index);
    while (index >= count_);  // at most three of four lie outside
    return index;
  }

 private:
  uint64_t Encrypted(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_, right = value & mask;
    for (const uint64_t key : keys_) {
      const uint64_t mixed = left ^ (Mixed(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }
  // The finalizer of SplitMix64.
  static uint64_t Mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  const uint64_t count_;
  const int half_bits_;
  std::array<uint64_t, 8> keys_;
};

class GlobalShuffleDataset final : public DatasetOfInput {
 public:
  GlobalShuffleDataset(Signature signature, DatasetPtr input, int64_t seed, int64_t seed2, bool reshuffles)
      : DatasetOfInput(std::move(signature), std::move(input)), seeds_(seed, seed2, reshuffles) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new GlobalShuffleIterator(RefPtr<const GlobalShuffleDataset>::Share(this)));
  }

 private:
  class GlobalShuffleIterator final : public Iterator {
   public:
    explicit GlobalShuffleIterator(RefPtr<const GlobalShuffleDataset> dataset)
        : dataset_(std::move(dataset)), seeds_(dataset_->seeds_.Next()) {}

    absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
      if (next_ == dataset_->cardinality()) return false;
      const Permutation order(static_cast<uint64_t>(dataset_->cardinality()), seeds_);
      const auto index = static_cast<int64_t>(order(static_cast<uint64_t>(next_)));
      absl::StatusOr<Element> found = dataset_->input().Get(context, index);
      if (!found.ok() && context.cancellation.is_cancelled()) return found.status();
      ++next_;  // also behind an error: the next call is for the next element
      WEIR_ASSIGN_OR_RETURN(*element, std::move(found));
      return true;
    }
    absl::Status Save(IteratorContext&, PositionWriter& position) override {
      position.Add(next_);
      position.Add(seeds_.first);
      position.Add(seeds_.second);
      position.Add(static_cast<int64_t>(dataset_->seeds_.num_drawn()));
      return absl::OkStatus();
    }
    absl::Status Restore(IteratorContext&, PositionReader& position) override {
      WEIR_ASSIGN_OR_RETURN(next_, position.NextNumber(0, dataset_->cardinality()));
      WEIR_ASSIGN_OR_RETURN(seeds_.first, position.NextNumber());
      WEIR_ASSIGN_OR_RETURN(seeds_.second, position.NextNumber());
      WEIR_ASSIGN_OR_RETURN(const int64_t num_drawn, position.NextNumber(0, INT64_MAX));
      position.OnAccepted(
          [dataset = dataset_, num_drawn] { dataset->seeds_.GoTo(static_cast<uint64_t>(num_drawn)); });
      return absl::OkStatus();
    }

   private:
    const RefPtr<const GlobalShuffleDataset> dataset_;
    IteratorSeeds::Pair seeds_;
    int64_t next_ = 0;
  };

  mutable IteratorSeeds seeds_;
};

// Inputs: dataset, seed, seed2, seed_generator, which is a DummySeedGenerator's.
class GlobalShuffle final : public DatasetKernel {
 public:
  explicit GlobalShuffle(const KernelConstruction& construction)
      : DatasetKernel(construction), reshuffles_(construction.attr<bool>("reshuffle_each_iteration")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t seed, ReadInteger(context.input(1), "seed"));
    WEIR_ASSIGN_OR_RETURN(const int64_t seed2, ReadInteger(context.input(2), "seed2"));
    WEIR_RETURN_IF_ERROR(input->CheckAnyOrder());
    if (input->cardinality() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got ",
          input->cardinality()));
    }
    return SetDataset<GlobalShuffleDataset>(context, signature, std::move(input), seed, seed2, reshuffles_);
  }

  const bool reshuffles_;
};

// A resource that stands for "the seeds of the node": nothing is kept behind it.
absl::Status DummySeedGenerator(KernelContext& context) {
  ResourceHandle handle;
  handle.device = context.device().name().ToString();
  handle.type_name = "DummySeedGenerator";
  context.set_output(0, Tensor::Scalar(std::move(handle)));
  return absl::OkStatus();
}

class GetElementAtIndex final : public Kernel {
 public:
  explicit GetElementAtIndex(const KernelConstruction& construction)
      : functions_(construction.session() == nullptr ? nullptr : construction.session()->functions()),
        signature_(SignatureOf(construction)) {}
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) return signature_.status();
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0, signature_->types));
    WEIR_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(context.input(1), "index"));
    const auto run = std::make_shared<IteratorRun>(context.device(), functions_);
    IteratorContext access = {*run, context.cancellation(), context.step_threads()};
    WEIR_ASSIGN_OR_RETURN(Element element, dataset->GetForClient(access, index));
    return SetElement(context, *signature_, std::move(element));
  }

 private:
  const std::shared_ptr<FunctionCaller> functions_;
  const absl::StatusOr<Dataset::Signature> signature_;
};

}  // namespace

void RegisterRandomAccessKernels(DeviceKernels& kernels) {
  kernels.Add<GlobalShuffle>("GlobalShuffleDataset");
  kernels.Add<&DummySeedGenerator>("DummySeedGenerator");
  kernels.Add<GetElementAtIndex>("GetElementAtIndex");
}

}  // namespace weir
