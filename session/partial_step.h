// One step whose feeds come, and whose fetches are taken, while it runs.
//
// Feeds and fetches are numbered as in the signature of its plan. The step begins at once and runs whatever
// its feeds allow. It ends when all that it runs has been computed, which is when all feeds have come that
// anything depends on. What it has computed for a fetch is kept until it is taken.
//
// A call is refused, and does nothing, when a feed or fetch does not exist, comes a second time, or does not
// fit, or when a fetch depends on a feed that has not come (TensorFlow's rules, but for loops: no result of a
// loop comes before all feeds of the loop, in TensorFlow some do). An error of the step, or
// Cancel, ends it: all fetches that are waited for get the reason, and so do all later calls.
//
// Owned by its caller, who may drop it within `done` too. One that is dropped is cancelled, unless all feeds
// on which something depends have come: then it ends by itself. Thread safety: all methods.
//
// Progress: a fetch is answered when what it depends on has been computed, or the step ends, by its deadline
// at the latest. Only Await waits.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "session/feed_type.h"
#include "session/step.h"
#include "session/step_plan.h"

namespace weir {

struct PartialSignature {
  std::vector<FeedType> feeds;
  std::vector<std::string> fetches;  // names: "dense/mm:0"
};

class PartialStep final : public Step {
 public:
  using Feeds = std::vector<std::pair<int, Tensor>>;

  // `plan`: of that signature, compiled for partial runs. May compute on this thread before it returns.
  // Errors are the step's.
  static std::unique_ptr<PartialStep> Start(std::shared_ptr<StepPlan> plan,
                                            std::shared_ptr<const PartialSignature> signature,
                                            absl::Time deadline);
  ~PartialStep() override;

  // May compute on this thread before it returns.
  // Possible errors: InvalidArgument as above; what ended the step.
  absl::Status Feed(int feed, Tensor tensor);

  // Calls `done` once with the fetches, on a thread of the steps or at once; not from within another such
  // call, and never inside of a kernel. `done` must not wait. When nothing is left to feed or to fetch, it is
  // called after the step has ended: what was run for its effect has happened by then. Possible errors:
  // InvalidArgument as above, and for a fetch whose branch was not taken, which ends the step; what ended the
  // step.
  void Fetch(std::vector<int> fetches, Done done);

  // Feed and Fetch in one call: all of it is refused, or nothing.
  void Run(Feeds feeds, std::vector<int> fetches, Done done);

  // Of the whole step. The results are empty.
  void OnDone(Done done) override;
  Results Await() override;
  void Cancel(const absl::Status& reason) override;

  // Whether no further call can be of use: all feeds have come and all fetches are taken, or the step has
  // failed.
  bool is_over() const;

 private:
  class State;
  explicit PartialStep(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;  // the running step has it too
};

}  // namespace weir
