// Sends the tensors of this task's steps to other tasks: collected by (step, destination), in few messages.
//
// A bundle leaves at Flush, or when it has grown past `bundle_bytes`. A tensor above `piece_bytes` leaves at
// once, cut into pieces of that size (tensor_assembler.h puts them together): sending, receiving and copying
// overlap, the network's buffers stay small, and no other message waits behind all of it. Bytes under way to
// one peer are bounded, by this task and by what the peer lets each of its senders have (inbound_budget.h):
// messages beyond that wait here, in order, until earlier ones have been acknowledged or their step is
// cancelled. A repeated message is recognised by its number and not delivered twice (delivered_messages.h).
//
// Two messages are saved where a step allows it. A part on another task that can do nothing before it has
// tensors of this task's part begins with them (BeginAtFlush). What a part here gives to the task that runs
// the step when it is over goes with the answer, if it is small (AnswerWith).
//
// A push that fails ends its step through `on_failure`, on a thread of the transport. Thread safety: all
// methods. Borrows Peers, and must be destroyed before it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "distributed/peers/delivered_messages.h"
#include "distributed/peers/inbound_budget.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/worker_protocol.h"
#include "session/rendezvous.h"
#include "session/tensor_sender.h"

namespace weir {

struct TensorPusherOptions {
  int64_t bundle_bytes = 1 << 20;
  int64_t piece_bytes = 4 << 20;                     // at least kMinPieceBytes
  int64_t max_bytes_under_way = int64_t{256} << 20;  // per peer; one larger message may go alone
  // Pieces only fill the peer's threads and the connection when there are more (measured on loopback: 8 MiB
  // are faster than 32, and a small step in between waits for less).
  int64_t max_bytes_before_piece = 8 << 20;
  absl::Duration timeout = absl::Minutes(2);  // of one message
};

class TensorPusher final : public TensorSender {
 public:
  using OnFailure = std::function<void(PlanId plan, int64_t step_id, const absl::Status& reason)>;

  TensorPusher(Peers& peers, const TensorPusherOptions& options, OnFailure on_failure);
  // Waits for what is under way.
  ~TensorPusher() override;

  // Unimplemented for a tensor that cannot be sent; InvalidArgument for a destination that is no task.
  absl::Status Send(PlanId plan, int64_t step_id, int edge, int64_t turn, const DeviceName& destination,
                    const Tensor& tensor, bool is_dead) override;
  void Flush(PlanId plan, int64_t step_id) override;
  void FlushLast(PlanId plan, int64_t step_id) override;
  void Discard(PlanId plan, int64_t step_id) override;
  void Withdraw(PlanId plan, int64_t step_id) override;

  // Calls `begin` when this task's part of the step flushes, with what has been collected for `to`; with the
  // reason if it is given up before. Once, without any lock.
  using BeginPart = absl::AnyInvocable<void(absl::StatusOr<std::vector<EdgeTensor>> first)>;
  void BeginAtFlush(PlanId plan, int64_t step_id, const TaskName& to, BeginPart begin);
  // Nothing if it has begun.
  void GiveUp(PlanId plan, int64_t step_id, const TaskName& to, const absl::Status& reason);

  // Of a step that `owner` runs: what FlushLast has for it waits for TakeAnswer, which must come, if it is
  // not larger than kMaxAnswerBytes. An answer is kept (worker_service.h), so it must stay small.
  static constexpr int64_t kMaxAnswerBytes = 1 << 10;
  void AnswerWith(PlanId plan, int64_t step_id, const TaskName& owner);
  std::vector<EdgeTensor> TakeAnswer(PlanId plan, int64_t step_id);

  // What this task may have under way to the peer, as far as the peer says.
  int64_t WindowTo(const TaskName& peer) const;

  // Returns when every message has been answered, or has failed, and on_failure has been called for it.
  void WaitUntilIdle();

 private:
  static constexpr InboundWindow kFirstWindow = {0, InboundBudget::kFirstWindow};
  using StepKey = std::pair<PlanId, int64_t>;
  struct Bundle {
    TaskName destination;
    PushRequest request;
    int64_t num_bytes = 0;
  };
  // A tensor in pieces.
  struct Transfer {
    uint64_t number = 0;  // 0 until its first piece goes
    int64_t num_pieces_left = 0;
  };
  struct Piece {
    TaskName destination;
    TensorPiece header;
    Tensor tensor;  // the whole
    int64_t num_bytes = 0;
    std::shared_ptr<Transfer> transfer;  // guarded by mutex_
  };
  // What waits for room; its tensors share their buffers with the step.
  struct Message {
    std::variant<Bundle, Piece> content;
    const TaskName& destination() const;
    StepKey step() const;
    int64_t num_bytes() const;
    MessageNumber& number();
  };
  struct Lane {  // to one peer
    int64_t bytes_under_way = 0;
    Incarnation life = 0;  // of the peer, whose window it is
    InboundWindow window = kFirstWindow;
    absl::Time answered = absl::InfinitePast();  // SteadyNow, when an answer said a window
    std::deque<Message> waiting;                 // the pieces of one tensor one after the other
    uint64_t next_number = 1;
    std::set<uint64_t> unanswered;

    uint64_t answered_below() const { return unanswered.empty() ? next_number : *unanswered.begin(); }
  };

  // What came of a message.
  struct Answered {
    absl::Status status;
    Incarnation life = 0;    // of who has answered; 0 when nobody has
    bool is_wanted = false;  // what follows this piece
    InboundWindow window;
  };

  struct Beginning {
    TaskName to;
    BeginPart begin;
  };
  struct Answer {
    TaskName owner;
    std::vector<EdgeTensor> entries;
  };

  static bool FitsAnAnswer(const Bundle& bundle);
  // What leaves now: the parts that begin, each with its bundle, and the other bundles.
  void Leave(std::vector<Beginning> beginnings, std::vector<Bundle> bundles);
  std::vector<Bundle> TakeCollectedLocked(const StepKey& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Beginning> TakeBeginningsLocked(const StepKey& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendInPieces(const TensorPiece& first, const TaskName& destination, const Tensor& tensor);
  // Messages to one peer, which follow one another.
  void Enqueue(std::vector<Message> messages);
  void Transmit(Message message);
  void TransmitBundle(Bundle bundle);
  void TransmitPiece(Piece piece);
  PeerCallOptions CallOptions() const;
  static Answered ReadAnswer(const absl::StatusOr<PeerReply>& reply, bool is_of_piece);
  // `transfer`: of a piece, otherwise null.
  void OnAnswered(const TaskName& destination, const MessageNumber& message, int64_t num_bytes,
                  const std::shared_ptr<Transfer>& transfer, const Answered& answered);
  void NoteWindowLocked(const Answered& answered, Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A later life of the peer has granted nothing yet. Whether it is one.
  bool NoteLifeLocked(Incarnation life, Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The peer gives to others what this task has not used for long.
  void GiveBackIdleWindowLocked(Lane* lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rest of a tensor that its receiver does not want any more.
  void DropWaitingPieces(const TaskName& destination, const std::shared_ptr<Transfer>& transfer);
  template <typename IsUnwanted>
  void DropWaitingLocked(Lane& lane, const IsUnwanted& is_unwanted, std::deque<Message>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayGoLocked(const Lane& lane, const Message& message) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those of the lane that wait and may go, with their numbers.
  std::vector<Message> TakeReadyLocked(const TaskName& peer, Lane& lane)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Peers& peers_;
  const TensorPusherOptions options_;
  const OnFailure on_failure_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<StepKey, std::vector<Bundle>> collected_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<StepKey, std::vector<Beginning>> beginnings_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<StepKey, Answer> answers_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskName, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  int num_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
