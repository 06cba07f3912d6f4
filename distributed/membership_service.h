// What this task answers to Heartbeats and to farewells of the others: who joins, who lives, who is done,
// and, on the authority, what is new.
//
// Watch: the authority holds one call of each task, which costs no thread, and answers it when somebody is
// lost. Losses that come together make one answer: news goes out at once, but then not again for kPause. A
// Watch that is held tells in the other direction too: when its connection breaks, its task may be gone, and
// the authority looks for it (probes.h). It also looks for whom another task cannot reach (Report). If it
// finds the task, only the link between the two is broken: nobody is declared lost, and the error of the call
// names the link.
//
// Before a process is let in that may have been replaced (Authority::MayBeReplaced) the authority calls the
// task's address, where that process must answer itself; otherwise, and where nobody answers, it is told to
// ask again, and why. One such call of a task is under way at a time: its answer counts for all who have
// asked meanwhile.
//
// A process that keeps a life of before this authority is let in at once, and called at its address, too
// (Authority::BeginLook).
//
// Where names are proven (MembershipOptions) an authority that hears of a later life of its own task calls
// its own address: a successor that answers there has the certificate of that task, and then this process is
// superseded.
//
// Thread safety: all methods. Borrows everything. Shutdown goes first.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/authority.h"
#include "distributed/membership.h"
#include "distributed/metrics/refused_calls.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/probes.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/transport.h"

namespace weir {

class MembershipService {
 public:
  static constexpr absl::Duration kPause = absl::Milliseconds(50);

  // `process`: which this one is; 0: not known. Borrows `refused` too; null where nobody counts whom it does
  // not let join.
  MembershipService(Membership& membership, Peers& peers, Probes& probes, uint64_t process = 0,
                    RefusedCalls* refused = nullptr);
  ~MembershipService();

  static bool Handles(absl::string_view method);
  // One of those; Unimplemented for another.
  void Handle(std::shared_ptr<IncomingCall> call);

  // Of the authority, which is about to leave: gives the last view to all who watch, and waits until every ps
  // that lives (where there is none, every training task) has it, or for `patience`.
  void GiveLastView(absl::Duration patience);

  // Answers the calls that are held, and holds none any more.
  void Shutdown();

  // Requests that came, of all methods.
  int64_t num_requests() const;

 private:
  struct Request {
    std::shared_ptr<IncomingCall> call;
    Envelope envelope;
    WireReader reader{""};
  };
  // Waits for what is found at its task's address.
  struct Joining {
    Request request;
    JoinCall call;
    absl::Time since;
  };
  static constexpr size_t kMostJoining = 16;  // as one task
  struct Held {
    std::shared_ptr<IncomingCall> call;
    uint64_t number = 0;  // of the call
    Incarnation life = 0;
    ViewNumber known;
  };
  // What callbacks of calls and timers may outlive this object for.
  struct Alive {
    absl::Mutex mutex;
    bool is_over ABSL_GUARDED_BY(mutex) = false;
    int num_joining ABSL_GUARDED_BY(mutex) = 0;  // of CallAddress, which may call back
  };

  void Reply(const Request& request, const absl::Status& status, std::string body = "") const;
  // Whether the task may have a place in this job, by what it says of itself: its version of Weir, and its
  // cluster spec.
  absl::Status CheckJoin(const TaskName& task, const JoinCall& call) const;
  // Says what is allowed to differ, and does: where the task's cluster spec has the task and the parameter
  // servers; which version of Weir it runs, once for each version.
  void NoteDifferences(const TaskName& task, const JoinCall& call);
  // Answers a task whose cluster spec is another one, or who asks the wrong one.
  void Refuse(const Request& request, const absl::Status& why);
  absl::Status CheckAuthority(const Envelope& envelope, absl::string_view what) const;
  void Join(Request& request);
  void Join(const Request& request, const JoinCall& call);
  void LookAndJoin(const Request& request, const JoinCall& call);
  // Asks the task's address who is there.
  void CallAddress(const TaskName& task, absl::Time deadline,
                   std::function<void(const absl::StatusOr<PeerReply>& reply)> then);
  void LookForHolder(const JoinRequest& holder);
  // With what came back from the task's address.
  void OnLooked(const TaskName& task, const absl::StatusOr<PeerReply>& looked);
  void OnLooked(const Request& request, const JoinCall& call, const absl::StatusOr<PeerReply>& looked);
  void Watch(Request& request);
  void Hold(const Request& request, const ViewNumber& known);
  void OnGivenUp(const TaskName& task, uint64_t number);
  void Report(Request& request);
  void NoteKnown(const TaskName& task, const ViewNumber& known);
  void LookForSuccessor();
  // Ends the calls that are held.
  void DropHeld(absl::string_view why);
  // Somebody was lost: soon, Publish.
  void OnNews();
  // Answers those held calls that there is something new for.
  void Publish();
  Frame MakeReply(const absl::Status& status, std::string body = "") const;

  Membership& membership_;
  Peers& peers_;
  Probes& probes_;
  const uint64_t process_;
  RefusedCalls* const refused_;
  Authority authority_;
  const std::shared_ptr<Alive> alive_ = std::make_shared<Alive>();

  mutable absl::Mutex mutex_;
  bool is_shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_requests_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<TaskName, std::vector<Joining>> joining_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_held_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<TaskName, Held> held_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskName, std::string> addresses_
      ABSL_GUARDED_BY(mutex_);                                    // that were told, and are not those here
  std::set<std::string> versions_ ABSL_GUARDED_BY(mutex_);        // that were said
  std::map<TaskName, ViewNumber> known_ ABSL_GUARDED_BY(mutex_);  // the newest that the task has asked with
  bool will_publish_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_looking_for_successor_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_publish_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace weir
