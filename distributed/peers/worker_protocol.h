// The messages between tasks: what RemoteWorker, TensorPusher and Heartbeats say, and WorkerService and
// MembershipService understand.
//
// Every request begins with an envelope (who sends it, in which life, which life of the receiver it is meant
// for, and the newest loss that the sender knows of), every reply with the replier's life and a status; what
// follows is the method's own. Tensors and graphs are payloads. Byte form: transport/wire.h; graphs as
// TensorFlow's GraphDef.
//
// Pure functions and values. Decoding is safe against hostile bytes: InvalidArgument, nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distributed/job_outline.h"
#include "distributed/life.h"
#include "distributed/task_name.h"
#include "distributed/transport/bundle.h"
#include "distributed/transport/frame.h"
#include "distributed/transport/wire.h"
#include "distributed/view.h"
#include "graph/op_registry.h"
#include "graph/version.h"
#include "session/worker.h"

namespace weir {

inline constexpr char kListDevicesMethod[] = "/weir.Worker/ListDevices";
inline constexpr char kRegisterPartitionMethod[] = "/weir.Worker/RegisterPartition";
inline constexpr char kRunPartitionMethod[] = "/weir.Worker/RunPartition";
inline constexpr char kCancelStepMethod[] = "/weir.Worker/CancelStep";
inline constexpr char kFailStepMethod[] = "/weir.Worker/FailStep";
inline constexpr char kBeginRestoreMethod[] = "/weir.Worker/BeginRestore";
inline constexpr char kEndRestoreMethod[] = "/weir.Worker/EndRestore";
inline constexpr char kDeregisterPartitionMethod[] = "/weir.Worker/DeregisterPartition";
inline constexpr char kEndSessionMethod[] = "/weir.Worker/EndSession";
inline constexpr char kResetContainersMethod[] = "/weir.Worker/ResetContainers";
inline constexpr char kPushTensorsMethod[] = "/weir.Worker/PushTensors";
inline constexpr char kPushPieceMethod[] = "/weir.Worker/PushPiece";
inline constexpr char kJoinMethod[] = "/weir.Worker/Join";
inline constexpr char kHeartbeatMethod[] = "/weir.Worker/Heartbeat";
inline constexpr char kWatchMethod[] = "/weir.Worker/Watch";
inline constexpr char kReportMethod[] = "/weir.Worker/Report";
inline constexpr char kJobDoneMethod[] = "/weir.Worker/JobDone";
inline constexpr char kLeaveMethod[] = "/weir.Worker/Leave";

struct Envelope {
  TaskName sender;
  Incarnation sender_incarnation = 0;
  Incarnation addressee = 0;  // 0: whichever life the receiver is in
  ViewNumber last_loss = {};  // Membership::last_loss

  void EncodeTo(WireWriter* writer) const;
  static Envelope DecodeFrom(WireReader* reader);  // check the reader afterwards
};

// A reply's beginning; payloads of the status travel too (session/ keeps the failing node there).
void EncodeReplyStatus(Incarnation replier, const absl::Status& status, WireWriter* writer);
absl::Status DecodeReplyStatus(WireReader* reader, Incarnation* replier);
// A whole reply; `body` is the method's own.
Frame EncodeReply(Incarnation replier, const absl::Status& status, std::string body = "",
                  std::vector<Payload> payloads = {});

void EncodeDevices(const std::vector<DeviceAttributes>& devices, WireWriter* writer);
absl::StatusOr<std::vector<DeviceAttributes>> DecodeDevices(WireReader* reader);

absl::Status EncodePartition(const PartitionSpec& spec, WireWriter* writer, std::vector<Payload>* payloads);
// `admit_tensors` is asked for each graph before its tensors are made (ImportOptions).
using AdmitTensors = std::function<absl::Status(PlanId plan, int64_t num_bytes)>;
absl::StatusOr<PartitionSpec> DecodePartition(WireReader* reader, const std::vector<Payload>& payloads,
                                              const OpRegistry& ops, const AdmitTensors& admit_tensors);

// What these messages are like. It grows with each change after which tasks of the versions before and after
// it cannot work together. 3: answers to pushes say windows (inbound_budget.h), and who does not read them is
// refused again and again; small all-reduces of many ranks and those of several ranks a host take other ways.
// 4: tensors that are pushed say their turn, for loops of several tasks. 5: rank 0 says which lives form a
// group of replicas. 6: the replica whose variables the others take over also says what it has applied of the
// step that is tried again. 7: replicas say how many calls they have done. 8: and how many their variables
// have.
inline constexpr uint64_t kWireProtocol = 8;

// Which Weir a task runs. Requests to join, and their answers, begin with it, in a form that does not change,
// so that tasks of any two versions can tell what is wrong with them.
struct SpokenVersion {
  static constexpr size_t kMaxBytes = 64;

  uint64_t protocol = kWireProtocol;  // 0: of a version that does not say which it is
  std::string version = WEIR_VERSION;
};
// InvalidArgument, with both tasks and both versions, when they speak different protocols.
absl::Status CheckSpoken(const TaskName& other, const SpokenVersion& theirs, const TaskName& self);
// What to say of tasks that run different versions with one protocol; empty when the versions are the same.
std::string DescribeOtherVersion(const TaskName& other, const SpokenVersion& theirs, const TaskName& self);

// To the authority; its task is the envelope's sender, whose life may be 0. With a life it is the heartbeat.
struct JoinCall {
  SpokenVersion spoken;
  Incarnation highest_known = 0;    // of any task
  Incarnation known_authority = 0;  // of the authority itself
  absl::Duration age;               // since the sender's process was started; in microseconds
  uint64_t process = 0;             // which the sender's process is (process_age.h); 0: not known
  ViewNumber view;                  // that the sender has
  // To an authority that was restarted: who is done.
  std::vector<std::pair<TaskName, Incarnation>> done;
  // Where the sender's cluster spec has the sender itself.
  std::string address;
  // Of a task that has no life yet: of its cluster spec.
  JobOutline outline = {};
};
void EncodeJoin(const JoinCall& call, WireWriter* writer);
// Of a call that speaks another protocol only `spoken`.
absl::StatusOr<JoinCall> DecodeJoin(WireReader* reader);
// The answer: the life of who asked, never 0, and what has changed since its view.
struct JoinReply {
  SpokenVersion spoken = {};
  Incarnation life = 0;
  View view;
};
void EncodeJoinReply(const JoinReply& reply, WireWriter* writer);
// Of an answer that speaks another protocol only `spoken`.
absl::StatusOr<JoinReply> DecodeJoinReply(WireReader* reader);

// The answer to a Heartbeat: which process answers; 0: it does not know.
void EncodeHeartbeatReply(uint64_t process, WireWriter* writer);
absl::StatusOr<uint64_t> DecodeHeartbeatReply(WireReader* reader);

// Of Report, which asks the authority to look for a task that the sender cannot reach. The reply: whether the
// authority has found it there.
void EncodeReport(const TaskName& task, Incarnation life, WireWriter* writer);
absl::StatusOr<std::pair<TaskName, Incarnation>> DecodeReport(WireReader* reader);
void EncodeReportReply(bool is_there, WireWriter* writer);
absl::StatusOr<bool> DecodeReportReply(WireReader* reader);

// Of Watch, which the authority answers when somebody is lost after that view; the reply is a View.
void EncodeViewNumber(const ViewNumber& number, WireWriter* writer);
absl::StatusOr<ViewNumber> DecodeWatch(WireReader* reader);
void EncodeView(const View& view, WireWriter* writer);
absl::StatusOr<View> DecodeView(WireReader* reader);

struct RunRequest {
  PlanId plan = 0;
  int64_t step_id = 0;
  int64_t over_below = 0;
  LogicalStep logical_step;
  absl::Time deadline;
  std::vector<Tensor> args;
  int num_results = 0;
  // The reply then begins with RunPartitionCall::applied_updates.
  bool wants_applied_updates = false;
  // Tensors of the sender's own part, as a push brings them.
  std::vector<EdgeTensor> first;
};
absl::Status EncodeRunRequest(const RunPartitionCall& call, absl::Time now,
                              const std::vector<EdgeTensor>& first, WireWriter* writer,
                              std::vector<Payload>* payloads);
// Errors of `admit`, too; likewise below.
absl::StatusOr<RunRequest> DecodeRunRequest(WireReader* reader, const std::vector<Payload>& payloads,
                                            absl::Time now, const AdmitObjects& admit = nullptr);

// The answer to a step, behind the applied updates: its results, and tensors for the part of who has asked,
// as a push brings them.
struct RunReply {
  std::vector<EdgeTensor> last;
  std::vector<Tensor> results;
};
absl::Status EncodeRunReply(const std::vector<EdgeTensor>& last, absl::Span<const Tensor> results,
                            WireWriter* writer, std::vector<Payload>* payloads);
absl::StatusOr<RunReply> DecodeRunReply(WireReader* reader, const std::vector<Payload>& payloads);

absl::Status EncodeTensors(absl::Span<const Tensor> tensors, WireWriter* writer,
                           std::vector<Payload>* payloads);
absl::StatusOr<std::vector<Tensor>> DecodeTensors(WireReader* reader, const std::vector<Payload>& payloads);

// Of CancelStep, which an owner says to those that run its step; and of FailStep, which one of those says to
// the owner.
struct CancelRequest {
  PlanId plan = 0;
  int64_t step_id = 0;
  absl::Status reason;
};
void EncodeCancel(PlanId plan, int64_t step_id, const absl::Status& reason, WireWriter* writer);
absl::StatusOr<CancelRequest> DecodeCancel(WireReader* reader);

// Of the messages with tensors that one life sends to one receiver: a repeated one is not delivered again
// (delivered_messages.h).
struct MessageNumber {
  uint64_t number = 0;
  uint64_t answered_below = 0;  // all earlier ones below have been answered, or given up; at most `number`
};

struct PushRequest {
  MessageNumber message;
  PlanId plan = 0;
  int64_t step_id = 0;
  std::vector<EdgeTensor> entries;
};
absl::Status EncodePush(const PushRequest& push, WireWriter* writer, std::vector<Payload>* payloads);
// Also InvalidArgument: a message that says that it has been answered.
absl::StatusOr<PushRequest> DecodePush(WireReader* reader, const std::vector<Payload>& payloads,
                                       const AdmitObjects& admit = nullptr);

// A piece of a tensor that is cut because it is large. Its bytes are the message's only payload: piece_bytes
// from index * piece_bytes on, fewer for the last piece.
struct TensorPiece {
  MessageNumber transfer;  // the pieces of one tensor have one number
  PlanId plan = 0;
  int64_t step_id = 0;
  int edge = 0;
  int64_t turn = -1;  // as EdgeTensor's
  TensorType type;    // of the whole
  int64_t piece_bytes = 0;
  int64_t index = 0;

  int64_t tensor_bytes() const {
    return type.shape.num_elements() * static_cast<int64_t>(DTypeSize(type.dtype));
  }
  int64_t num_pieces() const { return (tensor_bytes() + piece_bytes - 1) / piece_bytes; }
};
// Less is not worth a message, and would make a large tensor's bookkeeping large.
inline constexpr int64_t kMinPieceBytes = 64 << 10;
void EncodePiece(const TensorPiece& piece, WireWriter* writer);
// Also InvalidArgument: a number as above; a tensor of elements that are not plain bytes or of more bytes
// than can be counted, pieces below kMinPieceBytes or above 1 GiB, an index outside the tensor.
absl::StatusOr<TensorPiece> DecodePiece(WireReader* reader);
// The reply to a piece: whether the rest of its tensor is still wanted.
void EncodePieceReply(bool is_wanted, WireWriter* writer);
bool DecodePieceReply(WireReader* reader);

}  // namespace weir
