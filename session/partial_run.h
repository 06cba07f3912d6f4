// A step that is run in parts: feeds come, and fetches are taken, one call after another (TensorFlow's
// partial_run). Made by Session::StartPartialRun.
//
//   auto run = session->StartPartialRun({x, y}, {a, b}).value();
//   std::vector<Tensor> first = run->Run({{x, tensor}}, {a}).value();   // if a depends on x only
//   std::vector<Tensor> second = run->Run({{y, Guess(first[0])}}, {b}).value();
//
// All parts are one step: what they share is computed once. Each feed is given once and each fetch is taken
// once. A fetch can be taken when all feeds that it depends on have been given; a call that asks for it
// earlier is refused and changes nothing. Targets run as soon as what they depend on is there. The call that
// leaves nothing to feed or to fetch returns when the step has ended.
//
// Owned by its caller; valid as long as its session. One that is dropped before all its feeds have come is
// cancelled. Thread safety: all methods.
//
// Progress: partial_step.h. The step's time (RunOptions::timeout) begins with StartPartialRun.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "session/partial_step.h"
#include "session/session.h"

namespace weir {

class PartialRun {
 public:
  // Waits. A fetch may stand in a call more than once.
  // Possible errors: InvalidArgument (a feed or fetch that was not specified, comes a second time, does not
  // fit, or depends on a feed that has not come; a fetch whose branch was not taken); the error that ended
  // the step, which is that of all later calls; FailedPrecondition on a thread that is running a step.
  absl::StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const std::vector<TensorRef>& fetches);

  // The same without waiting: `done` is called once, as by PartialStep::Fetch.
  void Start(const Feeds& feeds, const std::vector<TensorRef>& fetches, Step::Done done);

  // The step: to cancel it, or to learn when it ends.
  Step& step() { return *step_; }
  // Whether no further part can be of use (partial_step.h).
  bool is_over() const { return step_->is_over(); }

 private:
  friend class PreparedStep;
  PartialRun(std::shared_ptr<StepPlan> plan, std::shared_ptr<const PartialSignature> signature,
             absl::Time deadline);
  absl::StatusOr<PartialStep::Feeds> Resolve(const Feeds& feeds) const;

  Environment& environment_;
  absl::flat_hash_map<std::string, int> feeds_;  // by name
  absl::flat_hash_map<std::string, int> fetches_;
  const std::unique_ptr<PartialStep> step_;
};

}  // namespace weir
