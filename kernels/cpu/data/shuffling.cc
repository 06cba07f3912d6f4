// ShuffleDataset: elements in a random order, TensorFlow's for equal seeds. ShuffleAndRepeatDataset gives
// what its input gives when it is shuffled, then repeated. TensorFlow's reads the next pass ahead while a
// pass empties the buffer; the elements and their order are the same.
//
// An iterator holds at most buffer_size elements. Whenever one is asked for, the buffer is filled, one
// element in it is drawn, and the first takes its place. Numbers come from a Philox stream; with
// reshuffle_each_iteration each iterator of the dataset gets the next two numbers of the dataset's own stream
// as its seeds. Seeds that are both 0 are any numbers.
//
// Source of the order: TensorFlow's core/kernels/data/shuffle_dataset_op.cc and random_seed_ops.h.
#include <deque>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/random_numbers.h"
#include "kernels/cpu/data/repeated.h"
#include "kernels/cpu/data_flow/element_rooms.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class ShuffleDataset;
class ShuffleIterator final : public IteratorOverInput {
 public:
  ShuffleIterator(RefPtr<const ShuffleDataset> dataset, IteratorPtr input);

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  // For one element more. ResourceExhausted when the device has no memory for it.
  absl::Status MakeRoom(IteratorContext& context);

  const RefPtr<const ShuffleDataset> dataset_;
  IteratorSeeds::Pair seeds_;
  RandomNumbers numbers_;
  bool input_is_over_ = false;
  // The elements, the oldest first. A deque stands for TensorFlow's ring: position 0 is its start.
  std::deque<Element> buffer_;
  ElementRooms rooms_;  // for these
};

class ShuffleDataset final : public DatasetOverInput<ShuffleDataset, ShuffleIterator> {
 public:
  ShuffleDataset(Signature signature, DatasetPtr input, int64_t buffer_size, int64_t seed, int64_t seed2,
                 bool reshuffles)
      : DatasetOverInput(std::move(signature), std::move(input)),
        buffer_size_(buffer_size),
        seeds_(seed, seed2, reshuffles) {}

  int64_t buffer_size() const { return buffer_size_; }
  IteratorSeeds& seeds() const { return seeds_; }

 private:
  const int64_t buffer_size_;
  mutable IteratorSeeds seeds_;
};

ShuffleIterator::ShuffleIterator(RefPtr<const ShuffleDataset> dataset, IteratorPtr input)
    : IteratorOverInput(std::move(input)),
      dataset_(std::move(dataset)),
      seeds_(dataset_->seeds().Next()),
      numbers_(seeds_.first, seeds_.second),
      rooms_(dataset_->signature().types.size()) {}

absl::StatusOr<bool> ShuffleIterator::Next(IteratorContext& context, Element* element) {
  while (!input_is_over_ && static_cast<int64_t>(buffer_.size()) < dataset_->buffer_size()) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    WEIR_RETURN_IF_ERROR(MakeRoom(context));
    Element next;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &next));
    input_is_over_ = !has_element;
    if (has_element) buffer_.push_back(std::move(next));
  }
  if (buffer_.empty()) return false;
  const size_t drawn = numbers_.Next() % buffer_.size();
  *element = std::move(buffer_[drawn]);
  std::swap(buffer_[drawn], buffer_.front());
  buffer_.pop_front();
  rooms_.Free(static_cast<int64_t>(buffer_.size()));
  return true;
}

absl::Status ShuffleIterator::MakeRoom(IteratorContext& context) {
  return rooms_.Hold(static_cast<int64_t>(buffer_.size()) + 1, context.allocator(), "a shuffle's buffer");
}

absl::Status ShuffleIterator::Save(IteratorContext& context, PositionWriter& position) {
  position.Add(seeds_.first);
  position.Add(seeds_.second);
  position.Add(static_cast<int64_t>(numbers_.drawn()));
  position.Add(static_cast<int64_t>(dataset_->seeds().num_drawn()));
  position.Add(int64_t{input_is_over_});
  position.Add(static_cast<int64_t>(buffer_.size()));
  for (const Element& element : buffer_) position.Add(element);
  return IteratorOverInput::Save(context, position);
}

absl::Status ShuffleIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(seeds_.first, position.NextNumber());
  WEIR_ASSIGN_OR_RETURN(seeds_.second, position.NextNumber());
  numbers_ = RandomNumbers(seeds_.first, seeds_.second);
  WEIR_ASSIGN_OR_RETURN(const int64_t drawn, position.NextNumber(0, INT64_MAX));
  numbers_.Skip(static_cast<uint64_t>(drawn));
  WEIR_ASSIGN_OR_RETURN(const int64_t drawn_of_dataset, position.NextNumber(0, INT64_MAX));
  position.OnAccepted([dataset = dataset_, drawn_of_dataset] {
    dataset->seeds().GoTo(static_cast<uint64_t>(drawn_of_dataset));
  });
  WEIR_ASSIGN_OR_RETURN(input_is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(const int64_t size, position.NextNumber(0, dataset_->buffer_size()));
  buffer_.clear();
  for (int64_t i = 0; i < size; ++i) {
    WEIR_ASSIGN_OR_RETURN(Element element, position.NextElement(dataset_->signature().types));
    WEIR_RETURN_IF_ERROR(MakeRoom(context));
    buffer_.push_back(std::move(element));
  }
  return IteratorOverInput::Restore(context, position);
}

class Shuffle final : public DatasetKernel {
 public:
  explicit Shuffle(const KernelConstruction& construction)
      : DatasetKernel(construction), reshuffles_(construction.attr<bool>("reshuffle_each_iteration")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(int64_t buffer_size, ReadInteger(context.input(1), "buffer_size"));
    WEIR_ASSIGN_OR_RETURN(const int64_t seed, ReadInteger(context.input(2), "seed"));
    WEIR_ASSIGN_OR_RETURN(const int64_t seed2, ReadInteger(context.input(3), "seed2"));
    if (buffer_size < 1 && buffer_size != -1) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer_size must be greater than zero or UNKNOWN_CARDINALITY, is ", buffer_size));
    }
    if (buffer_size == -1) buffer_size = INT64_MAX;  // all of them
    return SetDataset<ShuffleDataset>(context, signature, std::move(input), buffer_size, seed, seed2,
                                      reshuffles_);
  }

  const bool reshuffles_;
};

// Inputs: dataset, buffer_size, seed, seed2, count, and of V2 a DummySeedGenerator's handle.
class ShuffleAndRepeat final : public DatasetKernel {
 public:
  explicit ShuffleAndRepeat(const KernelConstruction& construction)
      : DatasetKernel(construction), reshuffles_(construction.attr<bool>("reshuffle_each_iteration")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t buffer_size, ReadInteger(context.input(1), "buffer_size"));
    WEIR_ASSIGN_OR_RETURN(const int64_t seed, ReadInteger(context.input(2), "seed"));
    WEIR_ASSIGN_OR_RETURN(const int64_t seed2, ReadInteger(context.input(3), "seed2"));
    WEIR_ASSIGN_OR_RETURN(const int64_t count, ReadInteger(context.input(4), "count"));
    if (buffer_size < 1) return absl::InvalidArgumentError("buffer_size must be greater than zero.");
    if (count < 1 && count != -1) {
      return absl::InvalidArgumentError("count must be greater than zero or equal to -1.");
    }
    auto shuffled =
        MakeRef<ShuffleDataset>(signature, std::move(input), buffer_size, seed, seed2, reshuffles_);
    WEIR_RETURN_IF_ERROR(shuffled->CountParts(context));
    const int stages = shuffled->stages();
    RefPtr<Dataset> repeated = RepeatedDataset(signature, std::move(shuffled), count);
    WEIR_RETURN_IF_ERROR(repeated->CountParts(context));
    repeated->set_stages(stages + 1);
    context.set_output(0, VariantOf(std::move(repeated)));
    return absl::OkStatus();
  }

  const bool reshuffles_;
};

}  // namespace

void RegisterShufflingKernels(DeviceKernels& kernels) {
  kernels.Add<Shuffle>("ShuffleDataset");
  kernels.Add<ShuffleAndRepeat>("ShuffleAndRepeatDataset");
  kernels.Add<ShuffleAndRepeat>("ShuffleAndRepeatDatasetV2");
}

}  // namespace weir
