// Datasets of the elements of datasets, which a function makes of elements: FlatMap, Interleave and its
// parallel forms.
//
// An interleaving has cycle_length datasets open (-1: as many as the device has threads, at most
// kMaxCycleLength) and takes block_length elements of each in turn. A parallel one computes the elements of
// those that are open ahead, each up to block_length or buffer_output_elements of them (ahead.h); the order
// is the same, but for errors. As in TensorFlow, in a parallel one an error counts as an element of its
// block, and what has no dataset because of an error (the input's, the function's) as a dataset with that
// error alone.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/ahead.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kMaxCycleLength = 1024;
constexpr int64_t kMaxAhead = 1024;

struct Interleaving {
  int64_t cycle_length = 1;
  int64_t block_length = 1;
  int64_t ahead = 0;  // elements of each open dataset that are computed ahead
};

class InterleaveDataset;
class InterleaveIterator final : public IteratorOverInput {
 public:
  InterleaveIterator(RefPtr<const InterleaveDataset> dataset, IteratorPtr input, PreparedFunction function);

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  // The numbers are those of saved positions.
  enum class State { kFree = 0, kOpen = 1, kFailed = 2 };
  struct Place {
    State state = State::kFree;
    Element arguments;     // what its dataset was made of
    IteratorPtr elements;  // null unless it is open
  };

  absl::Status OpenPlace(IteratorContext& context, Place& place, Element arguments);
  // Opens the place with the next dataset, unless the input is over.
  absl::Status TryToOpen(IteratorContext& context, Place& place);
  absl::StatusOr<bool> NextOf(IteratorContext& context, Place& place, Element* element);
  void GoToNextPlace() {
    in_block_ = 0;
    place_ = (place_ + 1) % places_.size();
  }
  void CountInBlock();
  bool CountsErrors(IteratorContext& context) const;

  const RefPtr<const InterleaveDataset> dataset_;
  const PreparedFunction function_;
  std::vector<Place> places_;
  size_t place_ = 0;
  int64_t in_block_ = 0;  // elements taken from the place
  int64_t num_open_ = 0;  // those that failed among them
  bool input_is_over_ = false;
};

class InterleaveDataset final : public DatasetOfInput {
 public:
  InterleaveDataset(Signature signature, DatasetPtr input, CapturedFunction function,
                    const Interleaving& interleaving)
      : DatasetOfInput(std::move(signature), std::move(input)),
        function_(std::move(function)),
        interleaving_(interleaving) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(PreparedFunction function, function_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(IteratorPtr iterator, input().MakeIterator(context));
    return IteratorPtr(new InterleaveIterator(RefPtr<const InterleaveDataset>::Share(this),
                                              std::move(iterator), std::move(function)));
  }
  int64_t cardinality() const override { return kUnknown; }
  const Interleaving& interleaving() const { return interleaving_; }

 private:
  const CapturedFunction function_;
  const Interleaving interleaving_;
};

InterleaveIterator::InterleaveIterator(RefPtr<const InterleaveDataset> dataset, IteratorPtr input,
                                       PreparedFunction function)
    : IteratorOverInput(std::move(input)),
      dataset_(std::move(dataset)),
      function_(std::move(function)),
      places_(dataset_->interleaving().cycle_length) {}

absl::Status InterleaveIterator::OpenPlace(IteratorContext& context, Place& place, Element arguments) {
  WEIR_ASSIGN_OR_RETURN(const Element results, function_.Run(arguments, context.cancellation));
  WEIR_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetMadeFor(*dataset_, "Function", results, context));
  IteratorContext below = Below(*dataset_, context);
  WEIR_ASSIGN_OR_RETURN(IteratorPtr elements, dataset->MakeIterator(below));
  if (dataset_->interleaving().ahead > 0) {
    auto ahead = std::make_unique<AheadIterator>(std::move(dataset), std::move(elements),
                                                 dataset_->interleaving().ahead);
    elements = std::move(ahead);
  }
  place = {State::kOpen, std::move(arguments), std::move(elements)};
  ++num_open_;
  return absl::OkStatus();
}

absl::Status InterleaveIterator::TryToOpen(IteratorContext& context, Place& place) {
  Element arguments;
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &arguments));
  input_is_over_ = !has_element;
  return has_element ? OpenPlace(context, place, std::move(arguments)) : absl::OkStatus();
}

absl::StatusOr<bool> InterleaveIterator::NextOf(IteratorContext& context, Place& place, Element* element) {
  if (place.state == State::kFailed) return false;
  IteratorContext below = Below(*dataset_, context);
  return place.elements->Next(below, element);
}

void InterleaveIterator::CountInBlock() {
  if (++in_block_ == dataset_->interleaving().block_length) GoToNextPlace();
}

bool InterleaveIterator::CountsErrors(IteratorContext& context) const {
  return dataset_->interleaving().ahead > 0 && !context.cancellation.is_cancelled();
}

absl::StatusOr<bool> InterleaveIterator::Next(IteratorContext& context, Element* element) {
  while (!input_is_over_ || num_open_ > 0) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    Place& place = places_[place_];
    if (place.state != State::kFree) {
      const absl::StatusOr<bool> has_element = NextOf(context, place, element);
      if (has_element.ok() && !*has_element) {
        place = Place();
        --num_open_;
        GoToNextPlace();
        continue;
      }
      if (has_element.ok() || CountsErrors(context)) CountInBlock();
      return has_element;
    }
    if (input_is_over_) {
      GoToNextPlace();
      continue;
    }
    const absl::Status opened = TryToOpen(context, place);
    if (opened.ok()) continue;
    if (CountsErrors(context)) {
      place.state = State::kFailed;
      ++num_open_;
      CountInBlock();
    }
    return opened;
  }
  return false;
}

absl::Status InterleaveIterator::Save(IteratorContext& context, PositionWriter& position) {
  position.Add(int64_t{input_is_over_});
  position.Add(static_cast<int64_t>(place_));
  position.Add(in_block_);
  for (const Place& place : places_) {
    position.Add(static_cast<int64_t>(place.state));
    if (place.state != State::kOpen) continue;
    position.Add(place.arguments);
    IteratorContext below = Below(*dataset_, context);
    WEIR_RETURN_IF_ERROR(place.elements->Save(below, position));
  }
  return IteratorOverInput::Save(context, position);
}

absl::Status InterleaveIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(input_is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(place_, position.NextNumber(0, static_cast<int64_t>(places_.size()) - 1));
  WEIR_ASSIGN_OR_RETURN(in_block_, position.NextNumber(0, dataset_->interleaving().block_length - 1));
  num_open_ = 0;
  for (Place& place : places_) {
    place = Place();
    WEIR_ASSIGN_OR_RETURN(const int64_t number, position.NextNumber(0, 2));
    const auto state = static_cast<State>(number);
    if (state == State::kFailed) {
      place.state = state;
      ++num_open_;
    }
    if (state != State::kOpen) continue;
    WEIR_ASSIGN_OR_RETURN(Element arguments, position.NextElement(dataset_->input().signature().types));
    WEIR_RETURN_IF_ERROR(OpenPlace(context, place, std::move(arguments)));
    IteratorContext below = Below(*dataset_, context);
    WEIR_RETURN_IF_ERROR(place.elements->Restore(below, position));
  }
  return IteratorOverInput::Restore(context, position);
}

// FlatMapDataset has no lengths; the others have, behind what is captured, and parallel ones more numbers.
class Interleave final : public DatasetKernel {
 public:
  explicit Interleave(const KernelConstruction& construction)
      : DatasetKernel(construction),
        function_(construction, "f"),
        num_captured_(static_cast<int>(construction.attr<std::vector<DType>>("Targuments").size())) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(CapturedFunction function,
                          CapturedFunction::Create(function_, context, 1, num_captured_));
    WEIR_ASSIGN_OR_RETURN(const Interleaving interleaving, ReadLengths(context));
    return SetDataset<InterleaveDataset>(context, signature, std::move(input), std::move(function),
                                         interleaving);
  }

  absl::StatusOr<Interleaving> ReadLengths(const KernelContext& context) const {
    const int first = 1 + num_captured_;
    Interleaving lengths;
    if (context.num_inputs() == first) {  // one after another, each to its end
      lengths.block_length = std::numeric_limits<int64_t>::max();
      return lengths;
    }
    WEIR_ASSIGN_OR_RETURN(lengths.cycle_length, ReadInteger(context.input(first), "cycle_length"));
    WEIR_ASSIGN_OR_RETURN(lengths.block_length, ReadInteger(context.input(first + 1), "block_length"));
    if (lengths.cycle_length == -1) lengths.cycle_length = std::max(2, context.threads().num_threads());
    if (lengths.cycle_length < 1) {
      return absl::InvalidArgumentError("`cycle_length` must be > 0");
    }
    if (lengths.block_length < 1) return absl::InvalidArgumentError("`block_length` must be > 0");
    if (lengths.cycle_length > kMaxCycleLength) {
      return absl::InvalidArgumentError(absl::StrCat("`cycle_length` is ", lengths.cycle_length, ": at most ",
                                                     kMaxCycleLength, " datasets are open"));
    }
    if (context.num_inputs() < first + 4) return lengths;
    WEIR_ASSIGN_OR_RETURN(const int64_t ahead,
                          ReadInteger(context.input(first + 2), "buffer_output_elements"));
    if (ahead < -1) return absl::InvalidArgumentError("`buffer_output_elements` must be >= 0");
    lengths.ahead = std::clamp<int64_t>(std::max(ahead, lengths.block_length), 1, kMaxAhead);
    return lengths;
  }

  const FunctionOfNode function_;
  const int num_captured_;
};

}  // namespace

void RegisterInterleavingKernels(DeviceKernels& kernels) {
  for (const char* op : {"FlatMapDataset", "InterleaveDataset", "ParallelInterleaveDatasetV4",
                         "LegacyParallelInterleaveDatasetV2"}) {
    kernels.Add<Interleave>(op);
  }
}

}  // namespace weir
