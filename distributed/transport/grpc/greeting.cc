#include "distributed/transport/grpc/greeting.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distributed/security.h"
#include "distributed/transport/grpc/call_headers.h"
#include "distributed/transport/grpc/health_check.h"
#include "distributed/transport/grpc/metadata_keys.h"

namespace weir {
namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kHeadBytes = 9;
constexpr size_t kMaxFrameBytes = 16 << 10;  // what a client may send before it is told more
constexpr size_t kMaxShownPath = 200;

enum FrameType { kData = 0, kHeaders = 1, kSettings = 4, kPushPromise = 5, kGoAway = 7, kContinuation = 9 };
enum Flag { kAck = 1, kEndStream = 1, kEndHeaders = 4, kPadded = 8, kPriority = 0x20 };

std::string BigEndian(size_t value, int num_bytes) {
  std::string bytes;
  for (int shift = 8 * (num_bytes - 1); shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(value >> shift));
  }
  return bytes;
}

void AppendFrame(int type, int flags, size_t stream, absl::string_view payload, std::string* out) {
  absl::StrAppend(out, BigEndian(payload.size(), 3), BigEndian(type, 1), BigEndian(flags, 1),
                  BigEndian(stream, 4), payload);
}

// HPACK's strings and fields without a table or a code (RFC 7541, 5.2 and 6.2.2).
void AppendString(absl::string_view text, std::string* out) {
  size_t left = text.size();
  if (left < 127) {
    out->push_back(static_cast<char>(left));
  } else {
    out->push_back(127);
    for (left -= 127; left >= 128; left >>= 7) out->push_back(static_cast<char>(0x80 | (left & 0x7f)));
    out->push_back(static_cast<char>(left));
  }
  absl::StrAppend(out, text);
}

void AppendField(absl::string_view name, absl::string_view value, std::string* out) {
  out->push_back('\0');
  AppendString(name, out);
  AppendString(value, out);
}

std::string ReplyHeaders() {
  std::string block = "\x88";  // :status 200
  AppendField("content-type", "application/grpc", &block);
  return block;
}

// As the protocol of gRPC asks for texts.
std::string PercentEncoded(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isprint(c) && c != '%') {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

// The end of a call: its status.
void AppendStatus(const absl::Status& status, std::string* block) {
  AppendField("grpc-status", absl::StrCat(status.raw_code()), block);
  if (status.ok()) return;
  AppendField("grpc-message", PercentEncoded(status.message()), block);
  AppendField(kRepliedKey, "1", block);
}

// Removes the padding; false when there is less than the frame says.
bool Unpad(int flags, absl::string_view* payload) {
  if (flags & kPadded) {
    if (payload->empty()) return false;
    const auto padding = static_cast<unsigned char>((*payload)[0]);
    payload->remove_prefix(1);
    if (padding > payload->size()) return false;
    payload->remove_suffix(padding);
  }
  return true;
}

}  // namespace

std::string Greeting::ServerSettings(int max_streams, int max_header_bytes) {
  constexpr int kMaxConcurrentStreams = 3, kMaxHeaderListSize = 6;
  std::string settings;
  AppendFrame(kSettings, 0, 0,
              absl::StrCat(BigEndian(kMaxConcurrentStreams, 2), BigEndian(max_streams, 4),
                           BigEndian(kMaxHeaderListSize, 2), BigEndian(max_header_bytes, 4)),
              &settings);
  return settings;
}

Greeting::State Greeting::Add(absl::string_view bytes, std::string* answers) {
  absl::StrAppend(&bytes_, bytes);
  if (!has_preface_) {
    const size_t size = std::min(bytes_.size(), kPreface.size());
    if (absl::string_view(bytes_).substr(0, size) != kPreface.substr(0, size)) return State::kOver;
    if (size < kPreface.size()) return State::kOpen;
    has_preface_ = true;
    num_read_ = kPreface.size();
  }
  const State state = ReadFrames(answers);
  if (state == State::kOver) {
    constexpr int kNoError = 0;
    AppendFrame(kGoAway, 0, 0, absl::StrCat(BigEndian(last_stream_, 4), BigEndian(kNoError, 4)), answers);
  }
  return state;
}

Greeting::FrameHead Greeting::HeadAt(size_t begin) const {
  const auto number = [&](size_t offset, size_t num_bytes) {
    size_t value = 0;
    for (size_t i = 0; i < num_bytes; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes_[begin + offset + i]);
    }
    return value;
  };
  return {number(0, 3), static_cast<int>(number(3, 1)), static_cast<int>(number(4, 1)),
          number(5, 4) & 0x7fffffff};
}

Greeting::State Greeting::ReadFrames(std::string* answers) {
  while (bytes_.size() - num_read_ >= kHeadBytes) {
    const FrameHead head = HeadAt(num_read_);
    if (head.length > kMaxFrameBytes) return State::kOver;
    if (bytes_.size() - num_read_ < kHeadBytes + head.length) break;
    const absl::string_view payload = absl::string_view(bytes_).substr(num_read_ + kHeadBytes, head.length);
    if (head.type == kSettings && (head.flags & kAck) && !has_acknowledged_) {
      has_acknowledged_ = true;
      bytes_.erase(num_read_, kHeadBytes + head.length);
      continue;
    }
    const State state = OnFrame(head, payload, answers);
    if (state != State::kOpen) return state;
    num_read_ += kHeadBytes + head.length;
  }
  if (is_stranger_) {  // gRPC will not read them
    bytes_.erase(0, num_read_);
    num_read_ = 0;
  }
  return bytes_.size() > kMaxBytes ? State::kOver : State::kOpen;
}

Greeting::State Greeting::OnFrame(const FrameHead& head, absl::string_view payload, std::string* answers) {
  switch (head.type) {
    case kHeaders:
      last_stream_ = std::max(last_stream_, head.stream);
      return OnCall(head, payload, answers);
    case kContinuation:
    case kPushPromise:
    case kGoAway:
      return State::kOver;
    default:
      return State::kOpen;
  }
}

Greeting::State Greeting::OnCall(const FrameHead& head, absl::string_view payload, std::string* answers) {
  // Headers of more than one frame are above the limit.
  if (head.stream == 0 || (head.flags & kEndHeaders) == 0 || !Unpad(head.flags, &payload))
    return State::kOver;
  if (is_stranger_) return Refuse(head.stream, "", answers);
  if (head.flags & kPriority) {
    constexpr size_t kPriorityBytes = 5;
    if (payload.size() < kPriorityBytes) return State::kOver;
    payload.remove_prefix(kPriorityBytes);
  }
  const absl::StatusOr<CallHeaders> headers = ReadCallHeaders(payload, kTokenKey);
  if (!headers.ok()) return State::kOver;
  if (TokensMatch(headers->token, token_)) return State::kAdmitted;
  is_stranger_ = true;
  const auto health = AnswerHealthCheck(headers->path, is_serving_ == nullptr || is_serving_());
  return health.has_value() ? Answer(head.stream, *health, answers)
                            : Refuse(head.stream, headers->path, answers);
}

// One check a connection: the headers of another could not be read.
Greeting::State Greeting::Answer(size_t stream, const absl::StatusOr<std::string>& response,
                                 std::string* answers) {
  std::string block;
  if (response.ok()) {
    AppendFrame(kHeaders, kEndHeaders, stream, ReplyHeaders(), answers);
    AppendFrame(kData, 0, stream, absl::StrCat(BigEndian(0, 1), BigEndian(response->size(), 4), *response),
                answers);
  } else {
    block = ReplyHeaders();
  }
  AppendStatus(response.status(), &block);
  AppendFrame(kHeaders, kEndHeaders | kEndStream, stream, block, answers);
  return State::kOver;
}

Greeting::State Greeting::Refuse(size_t stream, absl::string_view path, std::string* answers) {
  std::string block = ReplyHeaders();
  const absl::string_view shown = path.substr(0, kMaxShownPath);
  AppendStatus(absl::UnauthenticatedError(absl::StrCat(shown, shown.empty() ? "" : ": ", WhyNoToken(path))),
               &block);
  AppendFrame(kHeaders, kEndHeaders | kEndStream, stream, block, answers);
  return ++num_refused_ < kMaxRefusals ? State::kOpen : State::kOver;
}

}  // namespace weir
