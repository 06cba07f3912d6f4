#include "distributed/peers/worker_protocol.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "graph/interchange/graph_def.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

void EncodeTask(const TaskName& task, WireWriter* writer) {
  writer->String(task.job);
  writer->Unsigned(task.index);
}

TaskName DecodeTask(WireReader* reader) {
  TaskName task;
  task.job = std::string(reader->String());
  task.index = static_cast<int>(reader->UnsignedUpTo(INT32_MAX));
  return task;
}

ViewNumber DecodeViewNumber(WireReader* reader) {
  ViewNumber number;
  number.authority = reader->Fixed64();
  number.number = reader->Unsigned();
  return number;
}

// "Weirjoin", before what requests to join and their answers have said since they say their version.
constexpr uint64_t kSpokenBegin = 0x6e696f6a72696557;

// The tensors that end a message, in the payloads from there on.
absl::StatusOr<std::vector<Tensor>> DecodeLastTensors(WireReader* reader,
                                                      const std::vector<Payload>& payloads,
                                                      size_t next_payload,
                                                      const AdmitObjects& admit = nullptr) {
  WEIR_ASSIGN_OR_RETURN(const size_t count, DecodeTensorCount(reader, payloads.size()));
  std::vector<Tensor> tensors;
  tensors.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(reader, payloads, &next_payload, admit));
    tensors.push_back(std::move(tensor));
  }
  WEIR_RETURN_IF_ERROR(reader->Finish("a list of tensors"));
  return tensors;
}

}  // namespace

void Envelope::EncodeTo(WireWriter* writer) const {
  EncodeTask(sender, writer);
  writer->Fixed64(sender_incarnation);
  writer->Fixed64(addressee);
  EncodeViewNumber(last_loss, writer);
}

Envelope Envelope::DecodeFrom(WireReader* reader) {
  Envelope envelope;
  envelope.sender = DecodeTask(reader);
  envelope.sender_incarnation = reader->Fixed64();
  envelope.addressee = reader->Fixed64();
  envelope.last_loss = DecodeViewNumber(reader);
  return envelope;
}

void EncodeReplyStatus(Incarnation replier, const absl::Status& status, WireWriter* writer) {
  writer->Fixed64(replier);
  writer->StatusValue(status);
  if (status.ok()) return;
  std::vector<std::pair<std::string, std::string>> payloads;
  status.ForEachPayload([&](absl::string_view key, const absl::Cord& value) {
    payloads.emplace_back(std::string(key), std::string(value));
  });
  writer->Unsigned(payloads.size());
  for (const auto& [key, value] : payloads) {
    writer->String(key);
    writer->String(value);
  }
}

Frame EncodeReply(Incarnation replier, const absl::Status& status, std::string body,
                  std::vector<Payload> payloads) {
  WireWriter writer;
  EncodeReplyStatus(replier, status, &writer);
  Frame frame;
  frame.header = writer.Take() + body;
  frame.payloads = std::move(payloads);
  return frame;
}

absl::Status DecodeReplyStatus(WireReader* reader, Incarnation* replier) {
  *replier = reader->Fixed64();
  absl::Status status = reader->StatusValue();
  if (!status.ok()) {
    const size_t num_payloads = reader->Count();
    for (size_t i = 0; i < num_payloads && reader->ok(); ++i) {
      const absl::string_view key = reader->String();
      status.SetPayload(key, absl::Cord(reader->String()));
    }
  }
  if (!reader->ok()) return absl::InternalError("a reply is malformed");
  return status;
}

namespace {

void EncodeSpoken(const SpokenVersion& spoken, WireWriter* writer) {
  writer->Fixed64(kSpokenBegin);
  writer->Unsigned(spoken.protocol);
  writer->String(spoken.version.substr(0, SpokenVersion::kMaxBytes));
}

SpokenVersion DecodeSpoken(WireReader* reader) {
  WireReader ahead = *reader;
  if (ahead.Fixed64() != kSpokenBegin) return {.protocol = 0, .version = ""};
  SpokenVersion spoken;
  spoken.protocol = ahead.Unsigned();
  spoken.version = std::string(ahead.String().substr(0, SpokenVersion::kMaxBytes));
  *reader = ahead;
  return spoken;
}

std::string NameOf(const SpokenVersion& spoken) {
  if (spoken.protocol == 0) return "a version of Weir that does not say which it is";
  return absl::StrCat("Weir ", spoken.version, " (protocol ", spoken.protocol, ")");
}

}  // namespace

absl::Status CheckSpoken(const TaskName& other, const SpokenVersion& theirs, const TaskName& self) {
  if (theirs.protocol == kWireProtocol) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      other.ToString(), " runs ", NameOf(theirs), ", and ", self.ToString(), " runs ", NameOf({}),
      ": they do not understand each other; all tasks of a job must run the same version"));
}

std::string DescribeOtherVersion(const TaskName& other, const SpokenVersion& theirs, const TaskName& self) {
  if (theirs.version == WEIR_VERSION) return "";
  return absl::StrCat(other.ToString(), " runs Weir ", theirs.version, ", and ", self.ToString(),
                      " runs Weir ", WEIR_VERSION,
                      ": they understand each other, but may not compute the same");
}

void EncodeJoin(const JoinCall& call, WireWriter* writer) {
  EncodeSpoken(call.spoken, writer);
  writer->Fixed64(call.highest_known);
  writer->Fixed64(call.known_authority);
  writer->Signed(absl::ToInt64Microseconds(call.age));
  writer->Fixed64(call.process);
  EncodeViewNumber(call.view, writer);
  writer->Unsigned(call.done.size());
  for (const auto& [task, life] : call.done) {
    EncodeTask(task, writer);
    writer->Fixed64(life);
  }
  writer->String(call.address);
  EncodeTask(call.outline.chief, writer);
  writer->Unsigned(call.outline.ps.size());
  for (const JobOutline::Ps& ps : call.outline.ps) {
    writer->Unsigned(static_cast<uint64_t>(ps.index));
    writer->String(ps.address);
  }
}

absl::StatusOr<JoinCall> DecodeJoin(WireReader* reader) {
  JoinCall call;
  call.spoken = DecodeSpoken(reader);
  if (call.spoken.protocol != kWireProtocol) return call;
  call.highest_known = reader->Fixed64();
  call.known_authority = reader->Fixed64();
  call.age = absl::Microseconds(reader->Signed());
  call.process = reader->Fixed64();
  call.view = DecodeViewNumber(reader);
  const size_t num_done = reader->Count();
  for (size_t i = 0; i < num_done && reader->ok(); ++i) {
    TaskName task = DecodeTask(reader);
    call.done.emplace_back(std::move(task), reader->Fixed64());
  }
  call.address = std::string(reader->String());
  call.outline.chief = DecodeTask(reader);
  const size_t num_ps = reader->Count();
  for (size_t i = 0; i < num_ps && reader->ok(); ++i) {
    JobOutline::Ps ps;
    ps.index = static_cast<int>(reader->UnsignedUpTo(INT32_MAX));
    ps.address = std::string(reader->String());
    call.outline.ps.push_back(std::move(ps));
  }
  WEIR_RETURN_IF_ERROR(reader->Finish("a request to join"));
  if (call.age < absl::ZeroDuration()) return absl::InvalidArgumentError("a request to join from the future");
  return call;
}

void EncodeJoinReply(const JoinReply& reply, WireWriter* writer) {
  EncodeSpoken(reply.spoken, writer);
  writer->Fixed64(reply.life);
  EncodeView(reply.view, writer);
}

absl::StatusOr<JoinReply> DecodeJoinReply(WireReader* reader) {
  JoinReply reply;
  reply.spoken = DecodeSpoken(reader);
  if (reply.spoken.protocol != kWireProtocol) return reply;
  reply.life = reader->Fixed64();
  WEIR_ASSIGN_OR_RETURN(reply.view, DecodeView(reader));
  if (reply.life == 0) {
    return absl::InvalidArgumentError("the answer to a request to join grants no life");
  }
  return reply;
}

void EncodeHeartbeatReply(uint64_t process, WireWriter* writer) { writer->Fixed64(process); }

absl::StatusOr<uint64_t> DecodeHeartbeatReply(WireReader* reader) {
  const uint64_t process = reader->Fixed64();
  WEIR_RETURN_IF_ERROR(reader->Finish("the answer to a heartbeat"));
  return process;
}

void EncodeReport(const TaskName& task, Incarnation life, WireWriter* writer) {
  EncodeTask(task, writer);
  writer->Fixed64(life);
}

absl::StatusOr<std::pair<TaskName, Incarnation>> DecodeReport(WireReader* reader) {
  TaskName task = DecodeTask(reader);
  const Incarnation life = reader->Fixed64();
  WEIR_RETURN_IF_ERROR(reader->Finish("a report"));
  return std::make_pair(std::move(task), life);
}

void EncodeReportReply(bool is_there, WireWriter* writer) { writer->Unsigned(is_there ? 1 : 0); }

absl::StatusOr<bool> DecodeReportReply(WireReader* reader) {
  const bool is_there = reader->UnsignedUpTo(1) != 0;
  WEIR_RETURN_IF_ERROR(reader->Finish("the answer to a report"));
  return is_there;
}

void EncodeViewNumber(const ViewNumber& number, WireWriter* writer) {
  writer->Fixed64(number.authority);
  writer->Unsigned(number.number);
}

absl::StatusOr<ViewNumber> DecodeWatch(WireReader* reader) {
  const ViewNumber number = DecodeViewNumber(reader);
  WEIR_RETURN_IF_ERROR(reader->Finish("a request to watch"));
  return number;
}

void EncodeView(const View& view, WireWriter* writer) {
  EncodeViewNumber(view.number, writer);
  writer->Unsigned(view.since);
  writer->Unsigned(view.is_settled ? 1 : 0);
  writer->Unsigned(view.last_loss);
  writer->Unsigned(view.members.size());
  for (const Member& member : view.members) {
    EncodeTask(member.task, writer);
    writer->Fixed64(member.life);
    writer->Unsigned(static_cast<uint64_t>(member.state));
    writer->Unsigned(member.is_leaving ? 1 : 0);
    writer->String(member.why);
    writer->String(member.address);
  }
}

absl::StatusOr<View> DecodeView(WireReader* reader) {
  View view;
  view.number = DecodeViewNumber(reader);
  view.since = reader->Unsigned();
  view.is_settled = reader->UnsignedUpTo(1) != 0;
  view.last_loss = reader->Unsigned();
  const size_t num_members = reader->Count();
  for (size_t i = 0; i < num_members && reader->ok(); ++i) {
    Member member;
    member.task = DecodeTask(reader);
    member.life = reader->Fixed64();
    member.state = static_cast<MemberState>(reader->UnsignedUpTo(static_cast<uint64_t>(MemberState::kLeft)));
    member.is_leaving = reader->UnsignedUpTo(1) != 0;
    member.why = std::string(reader->String());
    member.address = std::string(reader->String());
    view.members.push_back(std::move(member));
  }
  WEIR_RETURN_IF_ERROR(reader->Finish("a view"));
  return view;
}

void EncodeDevices(const std::vector<DeviceAttributes>& devices, WireWriter* writer) {
  writer->Unsigned(devices.size());
  for (const DeviceAttributes& device : devices) {
    writer->String(device.name.ToString());
    writer->Unsigned(static_cast<uint64_t>(device.memory_limit));
    writer->Fixed64(device.incarnation);
    writer->String(device.description);
  }
}

absl::StatusOr<std::vector<DeviceAttributes>> DecodeDevices(WireReader* reader) {
  const size_t count = reader->Count();
  std::vector<DeviceAttributes> devices;
  for (size_t i = 0; i < count && reader->ok(); ++i) {
    DeviceAttributes device;
    WEIR_ASSIGN_OR_RETURN(device.name, DeviceName::Parse(reader->String()));
    device.memory_limit = static_cast<int64_t>(reader->UnsignedUpTo(INT64_MAX));
    device.incarnation = reader->Fixed64();
    device.description = std::string(reader->String());
    devices.push_back(std::move(device));
  }
  WEIR_RETURN_IF_ERROR(reader->Finish("a list of devices"));
  return devices;
}

absl::Status EncodePartition(const PartitionSpec& spec, WireWriter* writer, std::vector<Payload>* payloads) {
  writer->Fixed64(spec.plan);
  writer->Fixed64(spec.session);
  writer->Fixed64(spec.first_device);
  for (const int count : {spec.num_edges, spec.num_args, spec.num_results}) writer->Unsigned(count);
  for (const auto& graph : spec.graphs) {
    WEIR_ASSIGN_OR_RETURN(std::string bytes, GraphDefBytes(*graph, {.use_assigned_devices = true}));
    payloads->push_back(Payload::OfString(std::move(bytes)));
  }
  return absl::OkStatus();
}

namespace {

// Whose kernels trust it.
absl::Status CheckTransfer(const Node& node) {
  if (node.op_name() != kSendOp && node.op_name() != kRecvOp) return absl::OkStatus();
  const AttrValue* const edge = node.FindAttr(kEdgeAttr);
  if (edge != nullptr && edge->get_if<int64_t>() != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(node.Describe(), " of a partition has no number in attr ", kEdgeAttr));
}

}  // namespace

absl::StatusOr<PartitionSpec> DecodePartition(WireReader* reader, const std::vector<Payload>& payloads,
                                              const OpRegistry& ops, const AdmitTensors& admit_tensors) {
  // More than any plan has; bounds what a hostile message makes a rendezvous allocate.
  constexpr uint64_t kMaxCount = 1 << 20;
  PartitionSpec spec;
  spec.plan = reader->Fixed64();
  spec.session = reader->Fixed64();
  spec.first_device = reader->Fixed64();
  spec.num_edges = static_cast<int>(reader->UnsignedUpTo(kMaxCount));
  spec.num_args = static_cast<int>(reader->UnsignedUpTo(kMaxCount));
  spec.num_results = static_cast<int>(reader->UnsignedUpTo(kMaxCount));
  WEIR_RETURN_IF_ERROR(reader->Finish("a partition"));
  ImportOptions options;
  options.admit_tensors = [&](int64_t num_bytes) { return admit_tensors(spec.plan, num_bytes); };
  options.lets_runtime_ops_in = true;
  for (const Payload& payload : payloads) {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                          GraphFromGraphDefBytes(payload.bytes(), ops, options));
    for (const auto& node : graph->nodes()) {
      if (!node->requested_device().is_whole()) {
        return absl::InvalidArgumentError(absl::StrCat(node->Describe(),
                                                       " of a partition has no whole device: '",
                                                       node->requested_device().ToString(), "'"));
      }
      WEIR_RETURN_IF_ERROR(CheckTransfer(*node));
      graph->SetAssignedDevice(node.get(), node->requested_device());
    }
    spec.graphs.push_back(std::move(graph));
  }
  return spec;
}

absl::Status EncodeTensors(absl::Span<const Tensor> tensors, WireWriter* writer,
                           std::vector<Payload>* payloads) {
  writer->Unsigned(tensors.size());
  for (const Tensor& tensor : tensors) WEIR_RETURN_IF_ERROR(EncodeTensor(tensor, writer, payloads));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> DecodeTensors(WireReader* reader, const std::vector<Payload>& payloads) {
  return DecodeLastTensors(reader, payloads, 0);
}

absl::Status EncodeRunRequest(const RunPartitionCall& call, absl::Time now,
                              const std::vector<EdgeTensor>& first, WireWriter* writer,
                              std::vector<Payload>* payloads) {
  writer->Fixed64(call.plan);
  writer->Signed(call.step_id);
  writer->Signed(call.over_below);
  const LogicalStep& logical = call.logical_step;
  writer->Fixed64(logical.writer);
  if (logical.writer != 0) {
    writer->Signed(logical.number);
    writer->Signed(logical.settled_below);
  }
  writer->Deadline(call.deadline, now);
  writer->Unsigned(call.results.size());
  writer->Unsigned(call.applied_updates != nullptr ? 1 : 0);
  WEIR_RETURN_IF_ERROR(EncodeBundle(first, writer, payloads));
  return EncodeTensors(call.args, writer, payloads);
}

absl::StatusOr<RunRequest> DecodeRunRequest(WireReader* reader, const std::vector<Payload>& payloads,
                                            absl::Time now, const AdmitObjects& admit) {
  constexpr uint64_t kMaxResults = 1 << 24;
  RunRequest request;
  request.plan = reader->Fixed64();
  request.step_id = reader->Signed();
  request.over_below = reader->Signed();
  request.logical_step.writer = reader->Fixed64();
  if (request.logical_step.writer != 0) {
    request.logical_step.number = reader->Signed();
    request.logical_step.settled_below = reader->Signed();
  }
  request.deadline = reader->Deadline(now);
  request.num_results = static_cast<int>(reader->UnsignedUpTo(kMaxResults));
  request.wants_applied_updates = reader->UnsignedUpTo(1) == 1;
  size_t num_taken = 0;
  WEIR_ASSIGN_OR_RETURN(request.first, DecodeEntries(reader, payloads, &num_taken, admit));
  WEIR_ASSIGN_OR_RETURN(request.args, DecodeLastTensors(reader, payloads, num_taken, admit));
  return request;
}

absl::Status EncodeRunReply(const std::vector<EdgeTensor>& last, absl::Span<const Tensor> results,
                            WireWriter* writer, std::vector<Payload>* payloads) {
  WEIR_RETURN_IF_ERROR(EncodeBundle(last, writer, payloads));
  return EncodeTensors(results, writer, payloads);
}

absl::StatusOr<RunReply> DecodeRunReply(WireReader* reader, const std::vector<Payload>& payloads) {
  size_t num_taken = 0;
  RunReply reply;
  WEIR_ASSIGN_OR_RETURN(reply.last, DecodeEntries(reader, payloads, &num_taken));
  WEIR_ASSIGN_OR_RETURN(reply.results, DecodeLastTensors(reader, payloads, num_taken));
  return reply;
}

void EncodeCancel(PlanId plan, int64_t step_id, const absl::Status& reason, WireWriter* writer) {
  writer->Fixed64(plan);
  writer->Signed(step_id);
  writer->StatusValue(reason);
}

absl::StatusOr<CancelRequest> DecodeCancel(WireReader* reader) {
  CancelRequest request;
  request.plan = reader->Fixed64();
  request.step_id = reader->Signed();
  request.reason = reader->StatusValue();
  WEIR_RETURN_IF_ERROR(reader->Finish("a cancellation"));
  if (request.reason.ok()) return absl::InvalidArgumentError("a cancellation without a reason");
  return request;
}

static void EncodeMessageNumber(const MessageNumber& message, WireWriter* writer) {
  writer->Unsigned(message.number);
  writer->Unsigned(message.number - message.answered_below);
}

static absl::StatusOr<MessageNumber> DecodeMessageNumber(WireReader* reader) {
  const uint64_t number = reader->Unsigned();
  const uint64_t num_before = reader->Unsigned();
  if (reader->ok() && num_before > number) {
    return absl::InvalidArgumentError(
        absl::StrCat("message ", number, " says that ", num_before, " messages before it are not answered"));
  }
  return MessageNumber{number, number - num_before};
}

absl::Status EncodePush(const PushRequest& push, WireWriter* writer, std::vector<Payload>* payloads) {
  EncodeMessageNumber(push.message, writer);
  writer->Fixed64(push.plan);
  writer->Signed(push.step_id);
  return EncodeBundle(push.entries, writer, payloads);
}

absl::StatusOr<PushRequest> DecodePush(WireReader* reader, const std::vector<Payload>& payloads,
                                       const AdmitObjects& admit) {
  PushRequest push;
  WEIR_ASSIGN_OR_RETURN(push.message, DecodeMessageNumber(reader));
  push.plan = reader->Fixed64();
  push.step_id = reader->Signed();
  WEIR_ASSIGN_OR_RETURN(push.entries, DecodeBundle(reader, payloads, admit));
  return push;
}

void EncodePiece(const TensorPiece& piece, WireWriter* writer) {
  EncodeMessageNumber(piece.transfer, writer);
  writer->Fixed64(piece.plan);
  writer->Signed(piece.step_id);
  writer->Unsigned(static_cast<uint64_t>(piece.edge));
  writer->Unsigned(static_cast<uint64_t>(piece.turn + 1));
  EncodeTensorType(piece.type.dtype, piece.type.shape, writer);
  writer->Unsigned(static_cast<uint64_t>(piece.piece_bytes));
  writer->Unsigned(static_cast<uint64_t>(piece.index));
}

absl::StatusOr<TensorPiece> DecodePiece(WireReader* reader) {
  constexpr int64_t kMaxPieceBytes = int64_t{1} << 30;
  TensorPiece piece;
  WEIR_ASSIGN_OR_RETURN(piece.transfer, DecodeMessageNumber(reader));
  piece.plan = reader->Fixed64();
  piece.step_id = reader->Signed();
  piece.edge = static_cast<int>(reader->UnsignedUpTo(INT32_MAX));
  piece.turn = static_cast<int64_t>(reader->UnsignedUpTo(INT64_MAX)) - 1;
  WEIR_ASSIGN_OR_RETURN(piece.type, DecodeTensorType(reader));
  piece.piece_bytes = static_cast<int64_t>(reader->UnsignedUpTo(INT64_MAX));
  piece.index = static_cast<int64_t>(reader->UnsignedUpTo(INT64_MAX));
  WEIR_RETURN_IF_ERROR(reader->Finish("a piece of a tensor"));
  const std::string type = TypeString(piece.type.dtype, piece.type.shape);
  int64_t num_bytes = 0;
  if (piece.type.dtype == DType::kInvalid || !IsPlainBytes(piece.type.dtype) ||
      !MultiplyWithoutOverflow(piece.type.shape.num_elements(),
                               static_cast<int64_t>(DTypeSize(piece.type.dtype)), &num_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor ", type, " cannot come in pieces"));
  }
  if (piece.piece_bytes < kMinPieceBytes || piece.piece_bytes > kMaxPieceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor ", type, " came in pieces of ", piece.piece_bytes, " bytes"));
  }
  if (piece.index > (num_bytes - 1) / piece.piece_bytes || num_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("piece ", piece.index, " of ", piece.piece_bytes, " bytes is outside a tensor ", type));
  }
  return piece;
}

void EncodePieceReply(bool is_wanted, WireWriter* writer) { writer->Unsigned(is_wanted ? 1 : 0); }

bool DecodePieceReply(WireReader* reader) { return reader->Unsigned() != 0; }

}  // namespace weir
