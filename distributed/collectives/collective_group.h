// The group of replicas that this process belongs to, as programs see it: Server::replicas().
//
// Thread safety: all methods.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distributed/collectives/rank_group.h"

namespace weir {

class CollectiveGroup {
 public:
  virtual ~CollectiveGroup() = default;

  // What collective kernels of this process ask.
  virtual const RefPtr<RankGroup>& ranks() const = 0;

  // Waits until every rank has asked for it. A group that is formed is formed anew; its collectives end.
  // Every 10 s a line on stderr says who is awaited. `gives_up` is asked about twice a second.
  // Possible errors: DeadlineExceeded, naming who was awaited; FailedPrecondition (a rank has left in good
  // order, and will not come); Cancelled (this task is shutting down); Unavailable
  // (`gives_up` was true).
  virtual absl::Status Form(absl::Time deadline, absl::FunctionRef<bool()> gives_up) = 0;
  absl::Status Form(absl::Time deadline) {
    return Form(deadline, [] { return false; });
  }

  // This rank has done its last step. Rank 0 saves before it says so; the others wait until it has, because
  // it may be lost before and need what they have. A collective that still needs a rank which is done ends
  // the group on all ranks, with InvalidArgument.
  // Possible errors: that one; Aborted when a rank was lost meanwhile (form the group anew, and call this
  // again); DeadlineExceeded, naming rank 0; Cancelled (`gives_up`, or this task is shutting down).
  virtual absl::Status Finish(absl::Time deadline, absl::FunctionRef<bool()> gives_up) = 0;
};

// Of a program that runs alone.
class LoneGroup final : public CollectiveGroup, private RankLinks {
 public:
  LoneGroup(std::string name, Environment& environment)
      : environment_(environment), group_(new RankGroup(0, {std::move(name)}, *this, environment)) {}
  ~LoneGroup() override { group_->End(absl::CancelledError("this task is shutting down")); }

  const RefPtr<RankGroup>& ranks() const override { return group_; }
  using CollectiveGroup::Form;
  absl::Status Form(absl::Time, absl::FunctionRef<bool()>) override {
    group_->Begin(environment_.Random() | 1);
    return absl::OkStatus();
  }
  absl::Status Finish(absl::Time, absl::FunctionRef<bool()>) override { return absl::OkStatus(); }

 private:
  void Send(int, CollectiveMessage, Payload, Done done) override {
    done(absl::InternalError("a group of one rank sends nothing"));
  }
  void OnEnd(uint64_t, const absl::Status&) override {}

  Environment& environment_;
  const RefPtr<RankGroup> group_;
};

}  // namespace weir
