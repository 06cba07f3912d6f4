// This task's place in a group of replicas, over the network: forms the group, moves parts between ranks, and
// tells the others when it is over.
//
// Ranks are tasks in a given order. Forming: every rank asks rank 0 (Join), which answers all when the last
// one has asked; the answer names the generation. A rank that has lost the group asks again, which ends the
// generation for the others too, so that they come as well. Whoever ends a generation tells rank 0, and rank
// 0 tells everybody: 2 n messages.
//
// The answer also has the lives of the ranks. A rank that was started again may be heard of here later than
// by rank 0: it is known in its new life before the generation begins, and that an earlier life is lost does
// not end it.
//
// A rank that has left in good order is not waited for any more: forming the group without it fails; for one
// that asks when rank 0 has left, with TrainingIsOverError (exit_code.h). One that is only done (Finish) is
// still there, and comes when the group is formed anew.
//
// A rank may be lost when the others have its part of the last step. They end, and when it comes again rank 0
// alone could tell it so: that stays at its end until all others end too, for half a minute at most, and
// says to them again that it is done. It is known to be done also where only its membership says so.
//
// Ranks of one machine send small parts through memory that they share (memory_links.h), if there are no more
// of them than cores.
//
// Threads: parts are taken on the transport's threads (IncomingCall::Compute). Thread safety: all methods.
// Borrows `peers`, which must be destroyed after it and be shut down before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/collectives/collective_group.h"
#include "distributed/collectives/memory_links.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/transport.h"

namespace weir {

class PeerGroup final : public CollectiveGroup, public RankLinks {
 public:
  // Precondition: `ranks` contains the task of peers' membership.
  // `hosts` of the ranks, as everybody's cluster spec has them.
  PeerGroup(std::vector<TaskName> ranks, const std::vector<std::string>& hosts, Peers& peers);
  ~PeerGroup() override;

  const RefPtr<RankGroup>& ranks() const override { return group_; }

  absl::Status Form(absl::Time deadline, absl::FunctionRef<bool()> gives_up) override;

  absl::Status Finish(absl::Time deadline, absl::FunctionRef<bool()> gives_up) override;

  // This rank needs no collective any more, or (with an error) can go on no more. In good order it waits
  // until what it has sent has arrived, for kDelivery at most; then it tells the others, for `farewell` at
  // most.
  void Leave(const absl::Status& outcome, absl::Duration farewell);
  static constexpr absl::Duration kDelivery = absl::Seconds(10);

  // This task takes no part any more, without telling anybody.
  void Shutdown(const absl::Status& reason);

  static bool Handles(absl::string_view method);
  void Handle(std::shared_ptr<IncomingCall> call);
  Payload Place(absl::string_view method, absl::string_view header, size_t index, size_t num_bytes);

  void OnLoss(const TaskName& task, Incarnation life, const absl::Status& reason);

 private:
  struct Alive {
    absl::Mutex mutex;
    bool is_over ABSL_GUARDED_BY(mutex) = false;
  };
  // A rank's question to rank 0, which waits for its answer.
  struct Join {
    uint64_t attempt = 0;
    Incarnation life = 0;
    std::shared_ptr<IncomingCall> call;  // null: rank 0's own
  };

  static constexpr char kFormMethod[] = "/weir.Collective/Form";
  static constexpr char kOfferMemoryMethod[] = "/weir.Collective/OfferMemory";
  static constexpr char kReadMemoryMethod[] = "/weir.Collective/ReadMemory";

  void Send(int to, CollectiveMessage message, Payload bytes, Done done) override;
  void OnEnd(uint64_t generation, const absl::Status& reason) override;
  bool BeginLook(uint64_t generation) override { return memory_.BeginLook(generation); }
  void Look(uint64_t generation, absl::FunctionRef<bool()> is_over) override {
    memory_.Await(generation, is_over);
  }

  // Offers memory to the ranks of this machine that come after this one.
  void OfferMemory(uint64_t generation);
  void TakeOffer(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call);
  bool SendThroughMemory(int to, const CollectiveMessage& message, const Payload& bytes);
  void TakeFromMemory(int from, uint64_t generation, const absl::StatusOr<std::string>& written);
  void TellOfMemory(int rank, uint64_t generation);
  void TakeNoticeOfMemory(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call);

  // Until this task has joined the cluster.
  absl::Status AwaitOwnLife(absl::Time deadline, absl::FunctionRef<bool()> gives_up);
  absl::Status FormAsFirst(absl::Time deadline, absl::FunctionRef<bool()> gives_up);
  absl::Status AskFirst(absl::Time deadline, absl::FunctionRef<bool()> gives_up);
  // For one who waits for rank 0; OK when it shall go on waiting.
  absl::Status WhyNotToWait(absl::FunctionRef<bool()> gives_up);
  // Until the last rank has joined.
  absl::Status AwaitJoins(absl::Time deadline, absl::FunctionRef<bool()> gives_up)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rank 0 answers those who wait for it: they shall know, too, and ask again.
  void TellThoseWhoWait(std::string why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says that a rank has another cluster spec; not for each time that it asks. Whoever waits for it is told.
  void TellOfMismatch(int rank, const absl::Status& mismatch);
  // Answers all that wait if the last rank has come, and those who ask again meanwhile.
  void AnswerIfAllHaveJoined();
  void EndForOneThatAsks(uint64_t generation, int rank);
  void TakeJoin(int rank, Incarnation life, WireReader& reader, const std::shared_ptr<IncomingCall>& call);
  void TakePart(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call);
  void TakeEnd(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call);
  void TakeFinish(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call);
  void TakeLeave(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call);
  void AwaitNone(const int64_t* num_under_way, absl::Duration time);
  absl::Status AwaitFinishOfFirst(uint64_t generation, absl::Time deadline,
                                  absl::FunctionRef<bool()> gives_up);
  // -1 when it is no rank.
  int RankOf(const TaskName& task) const;
  // How long it is tried to reach a rank where the connection breaks, and how long its answer is waited for.
  struct TellOptions {
    absl::Duration retry_for;
    absl::Duration time;
  };
  // `told`: where the rank is noted when it has answered; null: nowhere.
  void Tell(int rank, const char* method, std::string body, const TellOptions& options,
            int64_t* num_under_way, std::set<int>* told = nullptr);
  // Of rank 0, which has left in good order: those who do not end too, as far as it knows.
  std::vector<int> MissingAtTheEndLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void AwaitOthers();
  // That rank 0 is done, and has left: what it said before may have been lost.
  void SayAgain(const std::vector<int>& ranks);
  absl::Status Admit(const Envelope& envelope);
  void Reply(IncomingCall& call, const absl::Status& status, std::string body = "") const;
  std::vector<std::string> MissingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why the group cannot be formed any more; OK while it can.
  absl::Status LeftLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What those are told who ask this rank for a group while it leaves. One that has failed may come again.
  absl::Status OwnLeaveLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What rank 0 answers. InvalidArgument for an answer that is none.
  struct Formed {
    uint64_t generation = 0;
    std::vector<Incarnation> lives;  // by rank
  };
  static std::string EncodeFormed(const Formed& formed);
  absl::StatusOr<Formed> DecodeFormed(WireReader& reader) const;
  void BeginGeneration(const Formed& formed);
  // From rank 0, that ranks are in later lives than this task has heard of.
  void LearnLives(const Formed& formed);
  void Refuse(const std::map<int, Join>& joined, const absl::Status& why) const;
  void LookAtWaitsLater();
  void ReportWaits();

  const std::vector<TaskName> tasks_;
  Peers& peers_;
  const int rank_;
  const std::shared_ptr<Alive> alive_ = std::make_shared<Alive>();
  const RefPtr<RankGroup> group_;
  MemoryLinks memory_;

  absl::Mutex mutex_;
  // Calls under way: with parts, with the news that a generation is over, with that of Leave.
  int64_t num_parts_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_ends_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_farewells_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;          // it leaves in good order, or rank 0 is about to
  std::set<int> told_ ABSL_GUARDED_BY(mutex_);            // that this rank leaves
  std::map<int, uint64_t> left_ ABSL_GUARDED_BY(mutex_);  // in good order: rank, and the generation it left
  std::map<int, uint64_t> finished_ ABSL_GUARDED_BY(mutex_);  // done, and there: rank, and the generation
  // Of rank 0: who has asked for the next generation; who asked how for the last one.
  std::map<int, Join> joined_ ABSL_GUARDED_BY(mutex_);
  std::map<int, uint64_t> answered_ ABSL_GUARDED_BY(mutex_);
  Formed answer_ ABSL_GUARDED_BY(mutex_);
  Formed begun_ ABSL_GUARDED_BY(mutex_);                        // the last generation of this rank
  std::map<int, std::string> refused_ ABSL_GUARDED_BY(mutex_);  // of rank 0: why, until they are let in
  absl::Time next_mismatch_notice_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool is_answering_ ABSL_GUARDED_BY(mutex_) = false;  // all have joined, but it has not begun here yet
};

}  // namespace weir
