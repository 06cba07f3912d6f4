#include "kernels/cpu/data_flow/conditional_accumulator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

std::string TextOf(const ConditionalAccumulator::Spec& spec) {
  return absl::StrCat("accumulator of the ", spec.reduction == GradientSum::Reduction::kMean ? "mean" : "sum",
                      " of ", spec.is_sparse ? "rows of " : "", TypeString(spec.dtype, spec.shape));
}

}  // namespace

ConditionalAccumulator::ConditionalAccumulator(Spec spec)
    : spec_(std::move(spec)),
      sum_({.dtype = spec_.dtype, .shape = spec_.shape, .is_sparse = spec_.is_sparse}) {}

absl::Status ConditionalAccumulator::Apply(const Caller& caller, int64_t local_step,
                                           const StagedGradient& gradient) {
  std::vector<TakerRef> over;
  {
    absl::MutexLock lock(&mutex_);
    if (local_step < global_step_) return absl::OkStatus();
    WEIR_RETURN_IF_ERROR(sum_.Add(0, gradient, {caller.allocator, caller.adding}));
    Serve(&over);
  }
  Finish(over);
  return absl::OkStatus();
}

void ConditionalAccumulator::Take(const Caller& caller, int64_t num_required, Done done) {
  if (num_required < 1) {
    return done(
        absl::InvalidArgumentError(absl::StrCat("num_required must be at least 1, is ", num_required)));
  }
  const auto taker = std::make_shared<Taker>(caller, num_required, std::move(done));
  // Registered first: once it is in the line, another thread may complete it and remove the callback.
  const uint64_t on_cancel =
      caller.cancellation.OnCancel([self = RefPtr<ConditionalAccumulator>::Share(this),
                                    taker](const absl::Status& reason) { self->OnCancel(taker, reason); });
  std::vector<TakerRef> over;
  {
    absl::MutexLock lock(&mutex_);
    if (taker->is_over) return;  // cancelled meanwhile
    taker->on_cancel = on_cancel;
    takers_.push_back(taker);
    Serve(&over);
  }
  Finish(over);
}

void ConditionalAccumulator::Serve(std::vector<TakerRef>* over) {
  while (!takers_.empty() && sum_.count() >= takers_.front()->num_required) {
    const TakerRef taker = takers_.front();
    takers_.pop_front();
    taker->result = sum_.Take(spec_.reduction, {taker->caller.allocator, taker->caller.adding});
    if (taker->result.ok()) ++global_step_;
    taker->is_over = true;
    over->push_back(taker);
  }
}

// Runs on the cancelling thread, which may be cancelling other takers as well. It must not complete those of
// other steps: it would wait for their callbacks, and one of them perhaps for this one.
void ConditionalAccumulator::OnCancel(const TakerRef& taker, const absl::Status& reason) {
  bool others_wait = false;
  {
    absl::MutexLock lock(&mutex_);
    if (taker->is_over) return;
    taker->is_over = true;
    takers_.remove(taker);
    others_wait = !takers_.empty();
  }
  Threads* const threads = taker->caller.threads;
  if (others_wait && threads != nullptr) {  // before `done`, after which the threads may be gone
    threads->At(absl::InfinitePast(),
                [self = RefPtr<ConditionalAccumulator>::Share(this)] { self->ServeAndFinish(); });
  }
  RefPtr<ConditionalAccumulator> self = RefPtr<ConditionalAccumulator>::Share(this);
  taker->done(absl::CancelledError(absl::StrCat("taking the gradient was cancelled: ", reason.message())));
  if (others_wait && threads == nullptr) self->ServeAndFinish();
}

void ConditionalAccumulator::ServeAndFinish() {
  std::vector<TakerRef> over;
  {
    absl::MutexLock lock(&mutex_);
    Serve(&over);
  }
  Finish(over);
}

void ConditionalAccumulator::Finish(const std::vector<TakerRef>& over) {
  for (const TakerRef& taker : over) {
    taker->caller.cancellation.Remove(taker->on_cancel);
    taker->done(std::move(taker->result));
  }
}

void ConditionalAccumulator::SetGlobalStep(int64_t global_step) {
  absl::MutexLock lock(&mutex_);
  global_step_ = global_step;
}

int64_t ConditionalAccumulator::num_accumulated() const {
  absl::MutexLock lock(&mutex_);
  return sum_.count();
}

absl::Status ConditionalAccumulator::CheckIsA(const Spec& spec) const {
  if (TextOf(spec) == TextOf(spec_)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", spec_.name, "' is an ", TextOf(spec_), ", must be an ", TextOf(spec)));
}

std::string ConditionalAccumulator::ToString() const {
  absl::MutexLock lock(&mutex_);
  return absl::StrCat("ConditionalAccumulator '", spec_.name, "', ", TextOf(spec_), ", has ", sum_.count());
}

}  // namespace weir
