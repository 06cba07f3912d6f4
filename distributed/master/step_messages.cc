#include "distributed/master/step_messages.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "distributed/master/utf8_text.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/config.pb.h"
#include "graph/interchange/proto/master.pb.h"
#include "graph/interchange/proto/step_stats.pb.h"
#include "graph/interchange/split_message.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::tensorflow::NamedTensorProto;

constexpr size_t kMaxMessageBytes = (size_t{1} << 31) - (1 << 20);

absl::Status InFeed(const absl::Status& status, absl::string_view name) {
  return absl::Status(status.code(), absl::StrCat("feed '", name, "': ", status.message()));
}

// A tensor of a request, which may be there already.
absl::StatusOr<Tensor> ReadTensor(absl::string_view message, absl::string_view name,
                                  absl::string_view session, AdmitFeeds admit) {
  absl::StatusOr<Tensor> tensor =
      TensorFromProtoBytes(message, [&](int64_t num_bytes) { return admit(session, num_bytes); });
  if (!tensor.ok()) return InFeed(tensor.status(), name);
  return tensor;
}

// The tensors of a RunStepRequest have names.
absl::Status ReadNamedFeed(absl::string_view message, AdmitFeeds admit, RunStepCall* call) {
  WEIR_ASSIGN_OR_RETURN(const SplitMessage split,
                        SplitMessageBytes(message, NamedTensorProto::kTensorFieldNumber));
  NamedTensorProto named;
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(split.rest, "a feed", &named));
  if (split.pieces.size() > 1) {
    return InFeed(absl::InvalidArgumentError("has more than one tensor"), named.name());
  }
  const absl::string_view bytes = split.pieces.empty() ? absl::string_view() : split.pieces[0];
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(bytes, named.name(), call->session, admit));
  call->names.feeds.push_back(named.name());
  call->feeds.push_back(std::move(tensor));
  return absl::OkStatus();
}

// Reads a request without its feeds, and asks whether it may have any. `feeds` are where they are.
template <typename Request>
absl::Status ReadFedRequest(absl::string_view message, absl::string_view what, AdmitFeeds admit,
                            Request* request, FedCall* call, std::vector<absl::string_view>* feeds) {
  WEIR_ASSIGN_OR_RETURN(SplitMessage split, SplitMessageBytes(message, Request::kFeedFieldNumber));
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(split.rest, what, request));
  call->session = request->session_handle();
  call->request_id = request->request_id();
  *feeds = std::move(split.pieces);
  return admit(call->session, 0);
}

// A message that is written piece by piece: bytes of its own between tensors that stay where they are.
class ResponseWriter {
 public:
  std::string* bytes() { return &bytes_; }

  void AddTensor(const Tensor& tensor) {
    if (!IsPlainBytes(tensor.dtype()) || tensor.num_bytes() == 0) return;
    Flush();
    frame_.payloads.push_back(Payload::OfTensor(tensor));
  }

  void AddPiece(int field, absl::string_view piece) {
    AppendPieceHead(field, piece.size(), &bytes_);
    absl::StrAppend(&bytes_, piece);
  }

  absl::StatusOr<Frame> Finish() {
    Flush();
    size_t num_bytes = 0;
    for (const Payload& payload : frame_.payloads) num_bytes += payload.num_bytes();
    if (num_bytes <= kMaxMessageBytes) return std::move(frame_);
    return absl::ResourceExhaustedError(
        absl::StrCat("the fetches take ", num_bytes, " bytes together, more than the ", kMaxMessageBytes,
                     " that one answer can hold: fetch them in several steps"));
  }

 private:
  void Flush() {
    if (!bytes_.empty()) frame_.payloads.push_back(Payload::OfString(std::exchange(bytes_, {})));
  }

  std::string bytes_;
  Frame frame_;
};

size_t ContentBytes(const Tensor& tensor) { return IsPlainBytes(tensor.dtype()) ? tensor.num_bytes() : 0; }

// The serialized message that has one piece.
std::string PieceHead(int field, size_t num_bytes) {
  std::string head;
  AppendPieceHead(field, num_bytes, &head);
  return head;
}

}  // namespace

StepWishes WishesOf(const tensorflow::RunOptions& options) {
  StepWishes wishes;
  if (options.timeout_in_ms() > 0) wishes.timeout = absl::Milliseconds(options.timeout_in_ms());
  wishes.partition_graphs = options.output_partition_graphs();
  wishes.trace = options.trace_level() != tensorflow::RunOptions::NO_TRACE;
  return wishes;
}

absl::StatusOr<RunStepCall> ParseRunStep(absl::string_view message, AdmitFeeds admit) {
  tensorflow::RunStepRequest request;
  RunStepCall call;
  std::vector<absl::string_view> feeds;
  WEIR_RETURN_IF_ERROR(ReadFedRequest(message, "a RunStepRequest", admit, &request, &call, &feeds));
  // What stands there twice is answered once.
  absl::flat_hash_set<absl::string_view> fetched;
  for (const std::string& fetch : request.fetch()) {
    if (fetched.insert(fetch).second) call.names.fetches.push_back(fetch);
  }
  call.names.targets.assign(request.target().begin(), request.target().end());
  call.wishes = WishesOf(request.options());
  call.partial_run = request.partial_run_handle();
  call.wants_errors_in_body = request.store_errors_in_response_body();
  for (const absl::string_view feed : feeds) WEIR_RETURN_IF_ERROR(ReadNamedFeed(feed, admit, &call));
  return call;
}

absl::StatusOr<RunCallableCall> ParseRunCallable(absl::string_view message, AdmitFeeds admit) {
  tensorflow::RunCallableRequest request;
  RunCallableCall call;
  std::vector<absl::string_view> feeds;
  WEIR_RETURN_IF_ERROR(ReadFedRequest(message, "a RunCallableRequest", admit, &request, &call, &feeds));
  call.callable = request.handle();
  for (const absl::string_view feed : feeds) {
    WEIR_ASSIGN_OR_RETURN(Tensor tensor,
                          ReadTensor(feed, absl::StrCat(call.feeds.size()), call.session, admit));
    call.feeds.push_back(std::move(tensor));
  }
  return call;
}

absl::StatusOr<Frame> RunStepResponse(absl::Span<const std::string> names, absl::Span<const Tensor> tensors,
                                      absl::string_view metadata) {
  ResponseWriter writer;
  for (size_t i = 0; i < tensors.size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const std::string tensor, TensorProtoBytesBeforeContent(tensors[i]));
    const size_t num_tensor_bytes = tensor.size() + ContentBytes(tensors[i]);
    const std::string name =
        absl::StrCat(PieceHead(NamedTensorProto::kNameFieldNumber, names[i].size()), names[i]);
    const std::string head = PieceHead(NamedTensorProto::kTensorFieldNumber, num_tensor_bytes);
    AppendPieceHead(tensorflow::RunStepResponse::kTensorFieldNumber,
                    name.size() + head.size() + num_tensor_bytes, writer.bytes());
    absl::StrAppend(writer.bytes(), name, head, tensor);
    writer.AddTensor(tensors[i]);
  }
  if (!metadata.empty()) writer.AddPiece(tensorflow::RunStepResponse::kMetadataFieldNumber, metadata);
  return writer.Finish();
}

Frame RunStepErrorResponse(const absl::Status& error) {
  tensorflow::RunStepResponse response;
  response.set_status_code(static_cast<int>(error.code()));
  response.set_status_error_message(AsUtf8(error.message()));
  Frame frame;
  frame.payloads.push_back(Payload::OfString(response.SerializeAsString()));
  return frame;
}

absl::StatusOr<Frame> RunCallableResponse(absl::Span<const Tensor> tensors, absl::string_view metadata) {
  ResponseWriter writer;
  for (const Tensor& fetched : tensors) {
    WEIR_ASSIGN_OR_RETURN(const std::string tensor, TensorProtoBytesBeforeContent(fetched));
    AppendPieceHead(tensorflow::RunCallableResponse::kFetchFieldNumber, tensor.size() + ContentBytes(fetched),
                    writer.bytes());
    absl::StrAppend(writer.bytes(), tensor);
    writer.AddTensor(fetched);
  }
  if (!metadata.empty()) writer.AddPiece(tensorflow::RunCallableResponse::kMetadataFieldNumber, metadata);
  return writer.Finish();
}

std::string PartitionGraphsMetadata(absl::Span<const std::string> graph_defs) {
  std::string metadata;
  for (const std::string& graph_def : graph_defs) {
    AppendPieceHead(tensorflow::RunMetadata::kPartitionGraphsFieldNumber, graph_def.size(), &metadata);
    absl::StrAppend(&metadata, graph_def);
  }
  return metadata;
}

}  // namespace weir
