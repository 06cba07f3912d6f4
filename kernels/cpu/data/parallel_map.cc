// ParallelMap and ParallelFilter: what a function makes of elements, and those for which it gives true,
// several at a time.
//
// At most num_parallel_calls calls are under way or waiting to be asked for (-1: as many as the device has
// threads; at most kMaxParallelCalls), and no further one begins while their arguments and results take more
// than kMaxAheadBytes. The calls run on the threads that run steps; the input is read by whoever asks for an
// element. Elements come in the order of the input, also where another would be allowed.
#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <set>

#include "kernels/cancellable_wait.h"
#include "kernels/cpu/data/function_dataset.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kMaxParallelCalls = 1024;

class ParallelMapDataset;
class ParallelMapIterator final : public IteratorOverInput {
 public:
  ParallelMapIterator(RefPtr<const ParallelMapDataset> dataset, IteratorPtr input, PreparedFunction function);
  ~ParallelMapIterator() override {
    if (run_ != nullptr) run_->end().Remove(end_of_run_);
    calls_->Cancel(absl::CancelledError("the iterator is gone"));
  }

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  // Guarded by the mutex of Calls until it has results.
  struct Call {
    std::optional<Function::Results> results;
    Element element;  // of a filter: what it is called with
    bool is_left_out = false;
    int64_t num_bytes = 0;
    Cancellation cancellation;  // its own: one that fails must not end the others
  };
  using CallRef = std::shared_ptr<Call>;
  // What calls share with the iterator, and keep when it is gone.
  struct Calls {
    Calls(RefPtr<const ParallelMapDataset> dataset, PreparedFunction function)
        : dataset(std::move(dataset)), function(std::move(function)) {}
    // All that are under way, and those that are started later.
    void Cancel(const absl::Status& reason) {
      std::set<CallRef> cancelled;
      {
        absl::MutexLock lock(&mutex);
        if (end.ok()) end = reason;
        cancelled = running;
      }
      for (const CallRef& call : cancelled) call->cancellation.Cancel(reason);
    }

    const RefPtr<const ParallelMapDataset> dataset;
    const PreparedFunction function;
    absl::Mutex mutex;
    absl::Status end ABSL_GUARDED_BY(mutex);  // OK until the iterator goes, or the worker ends
    std::set<CallRef> running ABSL_GUARDED_BY(mutex);
    int64_t num_bytes ABSL_GUARDED_BY(mutex) = 0;  // of arguments, and of results that nobody has asked for
  };

  // What comes of a call, of which the function gave `results`. Of a filter: the element, and whether it is
  // left out.
  static Function::Results Outcome(const ParallelMapDataset& dataset, Function::Results results, Call* call);

  absl::Status StartCalls(IteratorContext& context);
  void Start(Element arguments);
  // Whether the call is over; if not, the caller's step was cancelled.
  absl::Status Await(IteratorContext& context, Call& call);

  // The worker's end is the run's, and so the calls'.
  void EndWith(IteratorRun& run);

  const std::shared_ptr<Calls> calls_;
  std::shared_ptr<IteratorRun> run_;  // null before the first call
  uint64_t end_of_run_ = 0;
  std::deque<CallRef> waiting_;  // in the order of the input
  bool input_is_over_ = false;
};

class ParallelMapDataset final : public FunctionDataset<ParallelMapDataset, ParallelMapIterator> {
 public:
  enum class Kind { kMap, kFilter };

  ParallelMapDataset(Signature signature, DatasetPtr input, CapturedFunction function, Kind kind,
                     bool keeps_cardinality, int64_t num_calls)
      : FunctionDataset(std::move(signature), std::move(input), std::move(function)),
        kind_(kind),
        keeps_cardinality_(keeps_cardinality),
        num_calls_(num_calls) {}
  Kind kind() const { return kind_; }
  int64_t cardinality() const override {
    return kind_ == Kind::kMap && keeps_cardinality_ ? input().cardinality() : kUnknown;
  }
  // A call that ends with OutOfRange is then an error, and not the end.
  bool keeps_cardinality() const { return keeps_cardinality_; }
  int64_t num_calls() const { return num_calls_; }

  absl::Status CheckAnyOrder() const override {
    return kind_ == Kind::kMap ? input().CheckAnyOrder() : Dataset::CheckAnyOrder();
  }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return kind_ == Kind::kMap ? Mapped(context, index) : Dataset::ElementAt(context, index);
  }

  const Kind kind_;
  const bool keeps_cardinality_;
  const int64_t num_calls_;
};

ParallelMapIterator::ParallelMapIterator(RefPtr<const ParallelMapDataset> dataset, IteratorPtr input,
                                         PreparedFunction function)
    : IteratorOverInput(std::move(input)),
      calls_(std::make_shared<Calls>(std::move(dataset), std::move(function))) {}

Function::Results ParallelMapIterator::Outcome(const ParallelMapDataset& dataset, Function::Results results,
                                               Call* call) {
  if (!results.ok() || dataset.kind() == ParallelMapDataset::Kind::kMap) return results;
  Element element = std::move(call->element);
  WEIR_ASSIGN_OR_RETURN(const bool is_wanted, Verdict(*results));
  call->is_left_out = !is_wanted;
  return is_wanted ? std::move(element) : Element();
}

void ParallelMapIterator::Start(Element arguments) {
  const auto call = std::make_shared<Call>();
  call->num_bytes = NumBytes(arguments);
  if (calls_->dataset->kind() == ParallelMapDataset::Kind::kFilter) call->element = arguments;
  waiting_.push_back(call);
  absl::Status end;
  {
    absl::MutexLock lock(&calls_->mutex);
    calls_->num_bytes += call->num_bytes;
    calls_->running.insert(call);
    end = calls_->end;
  }
  if (!end.ok()) call->cancellation.Cancel(end);
  const auto on_done = [calls = calls_, call](Function::Results results) {
    results = Outcome(*calls->dataset, std::move(results), call.get());
    const int64_t num_bytes = NumBytes(results);
    absl::MutexLock lock(&calls->mutex);
    calls->num_bytes += num_bytes - std::exchange(call->num_bytes, num_bytes);
    call->results = std::move(results);
    calls->running.erase(call);
  };
  calls_->function.Start(std::move(arguments), call->cancellation, on_done);
}

void ParallelMapIterator::EndWith(IteratorRun& run) {
  if (run_ != nullptr) return;
  run_ = run.shared_from_this();
  end_of_run_ = run.end().OnCancel([calls = calls_](const absl::Status& reason) { calls->Cancel(reason); });
}

absl::Status ParallelMapIterator::StartCalls(IteratorContext& context) {
  EndWith(context.run);
  while (!input_is_over_ && static_cast<int64_t>(waiting_.size()) < calls_->dataset->num_calls()) {
    {
      absl::MutexLock lock(&calls_->mutex);
      if (!waiting_.empty() && calls_->num_bytes > kMaxAheadBytes) return absl::OkStatus();
    }
    Element arguments;
    const absl::StatusOr<bool> has_element = input_->Next(context, &arguments);
    if (!has_element.ok()) {
      if (waiting_.empty() || context.cancellation.is_cancelled()) return has_element.status();
      // What came before the error is given before it.
      waiting_.push_back(std::make_shared<Call>());
      waiting_.back()->results = Function::Results(has_element.status());
      return absl::OkStatus();
    }
    input_is_over_ = !*has_element;
    if (*has_element) Start(std::move(arguments));
  }
  return absl::OkStatus();
}

absl::Status ParallelMapIterator::Await(IteratorContext& context, Call& call) {
  return AwaitUnlessCancelled(context.environment(), calls_->mutex, context.cancellation,
                              [&] { return call.results.has_value(); });
}

absl::StatusOr<bool> ParallelMapIterator::Next(IteratorContext& context, Element* element) {
  CallRef call;
  do {
    WEIR_RETURN_IF_ERROR(StartCalls(context));
    if (waiting_.empty()) return false;
    call = waiting_.front();
    WEIR_RETURN_IF_ERROR(Await(context, *call));
    waiting_.pop_front();
    {
      absl::MutexLock lock(&calls_->mutex);
      calls_->num_bytes -= std::exchange(call->num_bytes, 0);
    }
  } while (call->is_left_out);
  Function::Results results = *std::move(call->results);
  if (!results.ok()) return EndOrError(results.status(), calls_->dataset->keeps_cardinality());
  WEIR_RETURN_IF_ERROR(CheckResults(*results, calls_->dataset->signature()));
  *element = *std::move(results);
  return true;
}

absl::Status ParallelMapIterator::Save(IteratorContext& context, PositionWriter& position) {
  for (const CallRef& call : waiting_) {
    WEIR_RETURN_IF_ERROR(Await(context, *call));
  }
  position.Add(int64_t{input_is_over_});
  const auto is_left_out = [](const CallRef& call) { return call->is_left_out; };
  position.Add(std::count_if(waiting_.begin(), waiting_.end(), std::not_fn(is_left_out)));
  for (const CallRef& call : waiting_) {
    if (!is_left_out(call)) position.Add(*call->results);
  }
  return IteratorOverInput::Save(context, position);
}

absl::Status ParallelMapIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(input_is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(const int64_t num_calls, position.NextNumber(0, kMaxParallelCalls));
  for (int64_t i = 0; i < num_calls; ++i) {
    waiting_.push_back(std::make_shared<Call>());
    Call& call = *waiting_.back();
    absl::StatusOr<Element> outcome;
    WEIR_RETURN_IF_ERROR(position.NextOutcome(calls_->dataset->signature().types, &outcome));
    call.num_bytes = NumBytes(outcome);
    call.results = std::move(outcome);
    absl::MutexLock lock(&calls_->mutex);
    calls_->num_bytes += call.num_bytes;
  }
  return IteratorOverInput::Restore(context, position);
}

// How many calls a node wants to be under way.
absl::StatusOr<int64_t> ReadNumCalls(const KernelContext& context, int input) {
  WEIR_ASSIGN_OR_RETURN(int64_t num_calls, ReadInteger(context.input(input), "num_parallel_calls"));
  if (num_calls < 1 && num_calls != -1) {
    return absl::InvalidArgumentError("num_parallel_calls must be greater than zero.");
  }
  if (num_calls == -1) num_calls = std::max(2, context.threads().num_threads());
  return std::min(num_calls, kMaxParallelCalls);
}

class ParallelMap final : public MapKernel {
 public:
  explicit ParallelMap(const KernelConstruction& construction)
      : MapKernel(construction, "f"), keeps_cardinality_(construction.attr<bool>("preserve_cardinality")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(CapturedFunction function, Captured(context, 1));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_calls, ReadNumCalls(context, 1 + num_captured()));
    return SetDataset<ParallelMapDataset>(context, signature, std::move(input), std::move(function),
                                          ParallelMapDataset::Kind::kMap, keeps_cardinality_, num_calls);
  }

  const bool keeps_cardinality_;
};

class ParallelFilter final : public MapKernel {
 public:
  explicit ParallelFilter(const KernelConstruction& construction) : MapKernel(construction, "predicate") {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(CapturedFunction function, Captured(context, 1));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_calls, ReadNumCalls(context, 1 + num_captured()));
    return SetDataset<ParallelMapDataset>(context, signature, std::move(input), std::move(function),
                                          ParallelMapDataset::Kind::kFilter, /*keeps_cardinality=*/true,
                                          num_calls);
  }
};

}  // namespace

void RegisterParallelMapKernels(DeviceKernels& kernels) {
  kernels.Add<ParallelMap>("ParallelMapDatasetV2");
  kernels.Add<ParallelFilter>("ParallelFilterDataset");
}

}  // namespace weir
