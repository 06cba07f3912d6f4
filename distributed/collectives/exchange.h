// A collective that a rank has begun: what it sends and to whom it tells its outcome.
//
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/collective_signature.h"
#include "distributed/collectives/lane.h"
#include "kernels/communicator.h"
#include "kernels/long_wait.h"

namespace weir {

class Exchange {
 public:
  // generation, key, sequence.
  using Id = std::pair<uint64_t, std::pair<Communicator::Key, int64_t>>;
  // Gives the collective's result, which is there unless the status is an error.
  using Done = std::function<void(const absl::Status&, const Collective&)>;

  struct Options {
    // Complete when all that it sends has been answered, too.
    bool waits_for_receivers = false;
    // Begun because others did; this rank has joined.
    bool is_proxy = false;
    uint64_t round = 0;
  };

  Exchange(Id id, const Communicator::Call& call, CollectiveSignature signature,
           std::unique_ptr<Collective> collective, const Options& options, int size, absl::Time begin,
           Done done)
      : id(id),
        name(call.name),
        signature(std::move(signature)),
        options(options),
        begin(begin),
        next_word(begin + LongWait::kSilence),
        collective(std::move(collective)),
        cancellation_(call.cancellation),
        lanes_(size),
        done_(std::move(done)) {}

  // The first outcome counts. It is told when Register has returned at the latest: the step, and with it the
  // cancellation, lives until then.
  void Finish(absl::Status outcome);

  // Once. `end` is called when the step is cancelled.
  void Register(std::function<void(const absl::Status&)> end);

  // Appends a part to those that wait for their receiver's credit.
  void Push(Collective::Outgoing part);
  std::optional<Lane::Sent> NextTo(int rank, ByteBudget* budget);
  void OnAnswer(int rank, const Lane::Sent& sent);
  // Nothing more is sent.
  void CloseLanes();

  bool is_complete() const;
  // The ranks that have not answered all that was sent to them, or has to be.
  std::vector<int> Receivers() const;
  // Around what is done with a part that has come: until then more may have to be sent because of it.
  void BeginTake();
  void EndTake();
  // Keeps the answer to a part until TakeHeld, so that its sender holds back what follows. False, and nothing
  // is kept, when lanes are closed.
  using Reply = absl::AnyInvocable<void(const absl::Status& status)>;
  bool Hold(Reply* reply);
  std::vector<Reply> TakeHeld();
  // Start and all that came early have been dealt with.
  void SetStarted();
  bool has_started() const;

  const Id id;
  const std::string name;
  const CollectiveSignature signature;
  const Options options;
  const absl::Time begin;
  absl::Time next_word;  // about whom it waits for; guarded by the group's mutex
  const std::unique_ptr<Collective> collective;

 private:
  Cancellation* const cancellation_;
  mutable absl::Mutex mutex_;
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mutex_);  // by receiver
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_unanswered_ ABSL_GUARDED_BY(mutex_) = 0;  // parts, also those that wait
  int num_takes_ ABSL_GUARDED_BY(mutex_) = 0;           // under way
  std::vector<Reply> held_ ABSL_GUARDED_BY(mutex_);
  bool has_started_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_registered_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t callback_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mutex_);  // before it was registered
  Done done_ ABSL_GUARDED_BY(mutex_);                            // null when it is over
};

}  // namespace weir
