// PreparedStep of session.h.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "session/session.h"
#include "session/step.h"
#include "session/step_trace.h"

namespace weir {
namespace {

// A step whose caller asked for its fetches in another order than the plan has them.
class ReorderedStep final : public Step {
 public:
  ReorderedStep(std::shared_ptr<Step> step, std::vector<int> fetch_order)
      : step_(std::move(step)), fetch_order_(std::move(fetch_order)) {}

  void OnDone(Done done) override {
    if (!done) return;
    step_->OnDone([order = fetch_order_, done = std::move(done)](const Results& results) {
      done(InOrder(order, results));
    });
  }
  Results Await() override { return InOrder(fetch_order_, step_->Await()); }
  void Cancel(const absl::Status& reason) override { step_->Cancel(reason); }

 private:
  static Results InOrder(const std::vector<int>& order, const Results& results) {
    if (!results.ok()) return results.status();
    std::vector<Tensor> ordered;
    for (const int fetch : order) ordered.push_back((*results)[fetch]);
    return ordered;
  }

  const std::shared_ptr<Step> step_;
  const std::vector<int> fetch_order_;
};

// A step that was refused.
class RefusedStep final : public Step {
 public:
  explicit RefusedStep(absl::Status status) : results_(std::move(status)) {}
  void OnDone(Done done) override {
    if (!done) return;
    CallUnnested([results = results_, done = std::move(done)] { done(results); });
  }
  Results Await() override { return results_; }
  void Cancel(const absl::Status&) override {}

 private:
  const Results results_;
};

}  // namespace

absl::Status PreparedStep::CheckFeeds(absl::Span<const Tensor> feeds) const {
  for (size_t i = 0; i < std::min(feeds.size(), feed_types_.size()); ++i) {
    WEIR_RETURN_IF_ERROR(feed_types_[i].Check(feeds[i]));
  }
  return absl::OkStatus();
}

absl::Time PreparedStep::Deadline(const RunOptions& options) const {
  return plan_->environment().Now() + (options.timeout > absl::ZeroDuration() ? options.timeout : timeout_);
}

absl::Status PreparedStep::Run(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches,
                               const RunOptions& options, RunMetadata* metadata) {
  WEIR_RETURN_IF_ERROR(CheckFeeds(feeds));
  if (options.trace && metadata != nullptr) return RunTraced(feeds, fetches, options, metadata);
  std::string* const applied_updates =
      options.notes_applied_updates && metadata != nullptr ? &metadata->applied_updates : nullptr;
  if (is_reordered_) return RunReordered(feeds, fetches, options, nullptr, applied_updates);
  return plan_->Run(feeds, fetches, Deadline(options), nullptr, options.logical_step, applied_updates);
}

absl::Status PreparedStep::RunTraced(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches,
                                     const RunOptions& options, RunMetadata* metadata) {
  StepTrace trace;
  const absl::Status status =
      is_reordered_ ? RunReordered(feeds, fetches, options, &trace)
                    : plan_->Run(feeds, fetches, Deadline(options), &trace, options.logical_step);
  metadata->step_stats = trace.Take();
  return status;
}

absl::Status PreparedStep::RunReordered(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches,
                                        const RunOptions& options, StepTrace* trace,
                                        std::string* applied_updates) {
  if (feeds.size() != feed_order_.size() || fetches.size() != fetch_order_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the step takes ", feed_order_.size(), " feeds and ",
                                                   fetch_order_.size(), " fetches, got ", feeds.size(),
                                                   " and ", fetches.size()));
  }
  std::vector<Tensor> results(num_plan_fetches_);
  WEIR_RETURN_IF_ERROR(plan_->Run(PlanFeeds(feeds), absl::MakeSpan(results), Deadline(options), trace,
                                  options.logical_step, applied_updates));
  for (size_t i = 0; i < fetches.size(); ++i) fetches[i] = results[fetch_order_[i]];
  return absl::OkStatus();
}

std::vector<Tensor> PreparedStep::PlanFeeds(absl::Span<const Tensor> feeds) const {
  if (feeds.size() != feed_order_.size()) return {feeds.begin(), feeds.end()};  // which the plan refuses
  std::vector<Tensor> result;
  for (const int feed : feed_order_) result.push_back(feeds[feed]);
  return result;
}

std::shared_ptr<Step> PreparedStep::Start(absl::Span<const Tensor> feeds, const RunOptions& options,
                                          std::shared_ptr<StepTrace> trace) {
  if (absl::Status fits = CheckFeeds(feeds); !fits.ok()) return std::make_shared<RefusedStep>(fits);
  if (!is_reordered_) {
    return plan_->Start(feeds, Deadline(options), options.logical_step, std::move(trace));
  }
  return std::make_shared<ReorderedStep>(
      plan_->Start(PlanFeeds(feeds), Deadline(options), options.logical_step, std::move(trace)),
      fetch_order_);
}

}  // namespace weir
