// Lets this task join the cluster and keeps it in: asks the authority for a life (authority.h), says to it
// regularly that this task lives, and gets the views in which it says who else does.
//
// One heartbeat per interval, to the authority only. It is the request to join again, so that an authority
// that was restarted hears of the lives that there are; one of them also tells it who is done. It may be
// answered with a greater life than this task has, which it takes (authority.h says when). The answer
// brings what has changed since the view of this task. What cannot wait for it, because somebody was lost,
// comes in the answer to a Watch, a call that the authority holds until then; and who sees from a message
// that the sender knows of a loss that it does not know (Envelope::last_loss) sends its next heartbeat at
// once.
//
// On the authority itself: looks for leases that ran out, and asks some of those that were lost. If they are
// there, they are alive again; if they know a later life of the authority, it is superseded
// (Membership::OnReplyStatus).
//
// An answer of an authority that speaks another protocol is a refusal; that it runs another version of Weir
// is said once.
//
// An authority that answers, and refuses this task, is not waited for as one that is silent: what it says is
// printed at once. When it has said for kRefusedFor leases, and nothing else, that this process has another
// token, certificate or cluster spec, the process ends (Membership::GiveUp): it read them when it was
// started, and waiting changes nothing. Until then they may just be being replaced everywhere. Only before
// this task has joined; later its work is worth waiting for. A connection that fails, as with a certificate
// that has expired, is the network's business: it is said too, and waited for.
//
// When a call to the authority breaks, looks whether it is still there (probes.h).
//
// Runs on the timer thread of Peers. Borrows both; must be destroyed before them.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/probes.h"
#include "distributed/peers/worker_protocol.h"

namespace weir {

class Heartbeats {
 public:
  // Starts at once. An interval of a fifth of the lease survives several lost messages. `age_before`: how
  // long before its membership this process was started. `process`: which it is (process_age.h).
  Heartbeats(Peers& peers, Probes& probes, absl::Duration interval,
             absl::Duration age_before = absl::ZeroDuration(), uint64_t process = 0);
  // No heartbeat is sent after it returns.
  ~Heartbeats();

 private:
  struct State {
    absl::Mutex mutex;
    bool is_stopped ABSL_GUARDED_BY(mutex) = false;
  };
  // A first request says how old this process is, and then may wait for a connection while a younger process
  // joins. An answer that took longer than this is not believed: the request is made again, with the age of
  // that moment. A few times only, for a network may be as slow as that.
  static constexpr absl::Duration kPromptAnswer = absl::Milliseconds(50);
  static constexpr int kMostLateAnswers = 3;
  // A heartbeat is waited for two intervals, and a first request not less than this, however short the lease
  // is: an answer that were always given up would let this task in never. Of those that are under way for
  // longer than two intervals there are few.
  static constexpr absl::Duration kLeastPatience = absl::Seconds(1);
  static constexpr int kMostFirstRequests = 4;
  // Of those that were lost, how many the authority asks at once.
  static constexpr size_t kMostAsked = 8;
  // How many intervals a Watch is held.
  static constexpr int kWatchedFor = 25;
  // How many leases a refusal lasts until it is final.
  static constexpr int kRefusedFor = 3;

  // Runs `then` on the timer thread, where nothing else is held, unless this object is gone.
  template <typename Then>
  void Soon(Then then);

  void Beat();
  void Ask();
  // `asked`, and the life with which it was asked.
  void OnAnswer(const TaskName& asked, absl::Time sent, Incarnation held,
                const absl::StatusOr<JoinReply>& answer);
  // The authority has not answered, or has refused this task.
  void OnRefused(const absl::Status& why);
  // Holds a Watch at the authority for what comes after that view.
  void Watch(const ViewNumber& known);
  void LookForAuthority();
  void OnNews(const TaskName& watched, const ViewNumber& known, const absl::StatusOr<View>& news);
  void AskTheLost();
  void NoteLease();

  Peers& peers_;
  Probes& probes_;
  Membership& membership_;
  const absl::Duration interval_;
  const absl::Duration age_before_;
  const uint64_t process_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  // Guarded by state_->mutex.
  bool is_watching_ = false;
  TaskName watched_;  // whom
  uint64_t num_watches_ = 0;
  bool is_asking_at_once_ = false;
  bool holds_lease_ = true;
  bool tells_why_ = false;  // the next heartbeat fails at once when nobody can be reached
  std::string said_;        // of what was answered, what was printed last
  std::string version_;     // of the authority, the last that was printed
  absl::Time next_notice_ = absl::InfinitePast();
  absl::Time refused_since_ = absl::InfiniteFuture();
  absl::Time last_refused_ = absl::InfinitePast();
  size_t next_lost_ = 0;
  int num_asked_ = 0;          // requests that are not answered
  Incarnation told_done_ = 0;  // the authority that was told who is done
  int num_late_answers_ = 0;
};

}  // namespace weir
