// One rank's side of a group: the collectives that are under way, and the end of all of them when one fails.
//
// Generations. The ranks form the group (peer_group.h does, over the network), and each forming is a
// generation with a number of its own. It ends (End) with the first failure, on this rank at once and on the
// others when they are told. A part of another generation is refused.
//
// A rank may be ahead of this one: a part of a collective that this rank has not begun is kept, and its
// sender gets its answer when it is begun. Senders hold back what has no credit (lane.h); one that does not
// is refused at kMaxEarlyBytes and kMaxEarlyParts.
//
// Joining. A rank that has joined begins what the others begin, when their parts come, with zeros: it learns
// from the signature what to begin. Parts carry the round, how often all have joined: those of the next
// round are this rank's own to begin. When all have joined, what is still under way for others is dropped:
// each that needed a result has it. Zeros and results of reductions that others make it compute so take no
// more than `max_proxy_bytes` together; what others gather and broadcast takes as much here as there.
//
// Updates. While a step of this rank updates variables (BeginUpdates), the end of a generation is told to
// the others at once, but to this rank's steps only afterwards; so is that a collective cannot begin.
//
// Thread safety: all methods. `Links` and callers are called without any lock. Borrows links and environment.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/collective_message.h"
#include "distributed/collectives/exchange.h"
#include "distributed/collectives/lane.h"
#include "distributed/collectives/update_sections.h"
#include "distributed/machine_memory.h"
#include "graph/types/shape.h"
#include "kernels/communicator.h"
#include "kernels/environment.h"

namespace weir {

// Moves parts to other ranks.
class RankLinks {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status& status)>;

  virtual ~RankLinks() = default;
  // `done` is called once: with OK when the receiver has taken the part. Every part is delivered at least
  // once, in any order, or its `done` gets an error.
  virtual void Send(int to, CollectiveMessage message, Payload bytes, Done done) = 0;
  // A generation has ended on this rank. Called once for each that has begun.
  virtual void OnEnd(uint64_t generation, const absl::Status& reason) = 0;

  // Links on which a rank can look for parts itself, instead of waiting to be woken (memory_links.h). Before
  // the part of a small collective is sent: whether Look follows on this thread.
  virtual bool BeginLook(uint64_t /*generation*/) { return false; }
  // Takes parts of others on this thread, until `is_over` or for a moment.
  virtual void Look(uint64_t /*generation*/, absl::FunctionRef<bool()> /*is_over*/) {}
};

class RankGroup final : public Communicator {
 public:
  static constexpr size_t kMaxEarlyParts = 16384;
  static constexpr int64_t kMaxEarlyBytes = int64_t{1} << 30;
  static constexpr size_t kRememberedEnds = 16;
  static constexpr absl::Duration kProxyPatience = absl::Seconds(5);
  static constexpr size_t kMaxReasonText = 4096;  // of the reason for an end, which others may have sent

  // `names` are the ranks' tasks, for messages; `ranks_per_host` is RankOf::per_host, the same on all ranks.
  RankGroup(int rank, std::vector<std::string> names, RankLinks& links, Environment& environment,
            int64_t max_proxy_bytes = HalfOfMemory(), int ranks_per_host = 1);
  ~RankGroup() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(names_.size()); }
  int num_reduced() const override { return alone().has_value() ? 1 : size(); }
  std::string NameOf(int rank) const;  // "rank 1 (worker:1)"

  void AllReduce(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) override;
  void AllGather(const Call& call, Tensor input, Done done) override;
  void Broadcast(const Call& call, int root, DType dtype, Tensor input, Done done) override;
  void ReduceScatter(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) override;
  void AllToAll(const Call& call, Tensor input, std::vector<int64_t> splits, ExchangedDone done) override;
  void Barrier(const Call& call, std::function<void(absl::Status)> done) override;
  void Join(const Call& call, std::function<void(absl::StatusOr<int>)> done) override;
  absl::Status BeginUpdates(const Call& call) override;
  void EndUpdates(const Call& call) override;

  // Whether a step of this rank was cancelled while it updated variables, which are of no step since then.
  bool has_torn_updates() const;
  // They have been overwritten.
  void ForgetTornUpdates();

  // The group is formed. What came early for this generation is kept, its end too.
  void Begin(uint64_t generation);
  // Ends what is under way, with `reason`, which is not OK; the first one counts until Begin.
  void End(absl::Status reason);
  // The same if that generation is the one that runs.
  void EndGeneration(uint64_t generation, absl::Status reason);
  // That rank will send no more: ends the generation where something of it is missing; what is complete
  // without it goes on. New collectives fail.
  void OnLeave(int rank, uint64_t generation);
  // That rank has done its last step: the same, with InvalidArgument, for it is no use to form the group
  // anew.
  void OnFinish(int rank, uint64_t generation);
  // 0 when there is none.
  uint64_t generation() const;
  // Why there is none; OK while there is one.
  absl::Status status() const;

  // What this rank itself has asked for, in all generations, and when there was none.
  struct Progress {
    int64_t num_collectives = 0;
    int64_t num_joins = 0;  // among them
  };
  Progress progress() const;

  // For steps that the others have done already: an all-reduce gives what this rank puts in, a barrier waits
  // for nobody, a join gives `newest`, the rank whose variables this one has taken over; other collectives,
  // and updates, fail with FailedPrecondition. nullopt: no more.
  void SetAlone(std::optional<int> newest);

  // A part from another rank. `reply` is called once, maybe later. Errors end the sender's generation.
  using Reply = Exchange::Reply;
  void Receive(int from, CollectiveMessage message, Payload bytes, Reply reply);
  Payload Place(int from, const CollectiveMessage& message, size_t num_bytes);

  // Tells steps of the end of their collectives where updates have taken longer than
  // UpdateSections::kLongest. To be called now and then.
  void TellOverdue();
  // Ends the generation where this rank, for others, has waited kProxyPatience for one that has gone. To be
  // called now and then.
  void EndVainProxies(absl::Time now);

  // A line for each collective that has waited for LongWait::kSilence, or will have `soon`, when this is
  // called again, and once more after each such time: who is awaited, for whose share and for what.
  std::vector<std::string> TakeWords(absl::Duration soon);

 private:
  using ExchangeId = Exchange::Id;
  using Make = absl::FunctionRef<absl::StatusOr<std::unique_ptr<Collective>>()>;
  struct Early {
    int from = 0;
    CollectiveMessage message;
    Payload bytes;
    Reply reply;
  };
  // Tells steps of this rank how their collectives have failed.
  using Telling = std::function<void()>;

  void Reduce(CollectiveSignature::Kind kind, const Call& call, Tensor input, Reduction reduction,
              bool divides, Done done);
  // Begins a collective of this rank, or (as a proxy) the one of others that `proxied` says, if that is the
  // next one of its key and this rank has joined.
  void Run(const Call& call, CollectiveSignature signature, Make make, Exchange::Options options,
           Exchange::Done done, const ExchangeId* proxied = nullptr);
  // Of a collective that has ended before it began.
  static void Refuse(const Call& call, const absl::Status& status, const Exchange::Done& done);
  // Begins what others have begun of that key, if this rank has joined.
  void BeginProxies(const Key& key);
  // `bytes`: what it takes, given back when the share goes.
  absl::StatusOr<std::unique_ptr<Collective>> MakeProxy(const CollectiveSignature& signature,
                                                        std::shared_ptr<void>* bytes);
  absl::Status TakeProxyBytes(const CollectiveSignature& signature, const Shape& shape,
                              std::shared_ptr<void>* bytes);
  absl::StatusOr<std::unique_ptr<Collective>> MakeReduction(const CollectiveSignature& signature,
                                                            Tensor input, Allocator& allocator) const;
  std::vector<Early> TakeEarlyLocked(const ExchangeId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendAll(const std::shared_ptr<Exchange>& exchange, std::vector<Collective::Outgoing> parts);
  // Sends what has credit.
  void Pump(const std::shared_ptr<Exchange>& exchange, int to);
  void OnAnswer(const std::shared_ptr<Exchange>& exchange, int to, const Lane::Sent& sent,
                const absl::Status& status);
  void Take(const std::shared_ptr<Exchange>& exchange, Early part);
  static void AnswerHeld(Exchange& exchange, const absl::Status& status);
  // Calls `done` if everything is there.
  void FinishIfComplete(const std::shared_ptr<Exchange>& exchange);
  enum class Presence { kHere, kDone, kLeft };
  void NoteGone(int rank, uint64_t generation, Presence presence);
  std::vector<std::shared_ptr<Exchange>> TakeProxiesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WhyGone(int rank, Presence presence, absl::string_view needed_by) const;
  absl::Status WhyInVainLocked(const Exchange& exchange, absl::Span<const Early> early) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of one that has started, about ranks that have gone meanwhile.
  void EndIfSomebodyIsGone(const Exchange& exchange);
  // What waits for updates, unless it has to go on waiting.
  std::vector<Telling> TakeDeferredLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Tell(const std::vector<Telling>& told);
  absl::Status CheckEarlyLocked(int from, const CollectiveMessage& message, size_t num_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<int> alone() const;
  absl::Status NotFormedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int rank_;
  const int ranks_per_host_;
  const std::vector<std::string> names_;
  RankLinks& links_;
  Environment& environment_;

  mutable absl::Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_generation_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<int> alone_ ABSL_GUARDED_BY(mutex_);
  // Ends of generations that have not begun here, the last kRememberedEnds.
  std::deque<std::pair<uint64_t, absl::Status>> early_ends_ ABSL_GUARDED_BY(mutex_);
  std::vector<Presence> presence_ ABSL_GUARDED_BY(mutex_);      // by rank
  std::vector<absl::Time> gone_since_ ABSL_GUARDED_BY(mutex_);  // likewise
  absl::flat_hash_map<Key, int64_t> next_sequence_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ExchangeId, std::shared_ptr<Exchange>> exchanges_ ABSL_GUARDED_BY(mutex_);
  bool has_joined_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_begun_ ABSL_GUARDED_BY(mutex_) = 0;  // by this rank itself, in this round
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  UpdateSections updates_ ABSL_GUARDED_BY(mutex_);
  std::vector<Telling> deferred_ ABSL_GUARDED_BY(mutex_);  // until updates have ended
  // Parts of collectives that this rank has not begun.
  absl::flat_hash_map<ExchangeId, std::vector<Early>> early_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> num_early_ ABSL_GUARDED_BY(mutex_);  // by rank
  std::vector<int64_t> num_early_bytes_ ABSL_GUARDED_BY(mutex_);
  std::vector<ByteBudget> budgets_;  // by receiver
  const int64_t max_proxy_bytes_;
  const std::shared_ptr<ByteBudget> proxy_budget_;
};

}  // namespace weir
