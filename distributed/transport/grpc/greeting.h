// What a client says on an HTTP/2 connection until its first call has shown the job's token, and what it is
// answered until then.
//
// gRPC keeps memory for each stream that a client opens until the server has looked at its call, also when
// the client resets it at once, and bounds neither. So gRPC gets a connection only when its first call
// carries the token. Until then a greeting reads it: frames (RFC 9113) and the headers of that call
// (call_headers.h). It answers calls without the token itself, and the health checks of probes, which carry
// none.
//
// A client waits for the server's settings before it calls: ServerSettings, to be sent first. The client's
// acknowledgement of them is not passed on, for gRPC sends its own.
//
// Memory: kMaxBytes. Thread safety: none. No system calls: what is sent and received is the caller's.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

class Greeting {
 public:
  enum class State {
    kOpen,      // more must come
    kAdmitted,  // the token was shown: the connection is gRPC's, which shall read TakeBytes first
    kOver,      // the connection shall be closed when the answers have been sent
  };

  static constexpr size_t kMaxBytes = 48 << 10;  // unread ones; a frame has at most 16 KiB
  static constexpr int kMaxRefusals = 8;

  // `is_serving` is what health checks are told.
  Greeting(std::string token, std::function<bool()> is_serving)
      : token_(std::move(token)), is_serving_(std::move(is_serving)) {}

  static std::string ServerSettings(int max_streams, int max_header_bytes);

  // Reads what the client has sent, and appends to `answers` what it shall get.
  State Add(absl::string_view bytes, std::string* answers);

  // Calls that were refused.
  int num_refused() const { return num_refused_; }
  // Of one that is over: whether what came was no HTTP/2 at all, and whether it was the beginning of TLS.
  bool is_other_protocol() const { return !has_preface_; }
  bool is_tls() const { return bytes_.substr(0, 2) == "\x16\x03"; }

  std::string TakeBytes() { return std::move(bytes_); }

 private:
  struct FrameHead {
    size_t length;
    int type;
    int flags;
    size_t stream;
  };

  FrameHead HeadAt(size_t begin) const;
  State ReadFrames(std::string* answers);
  State OnFrame(const FrameHead& head, absl::string_view payload, std::string* answers);
  State OnCall(const FrameHead& head, absl::string_view payload, std::string* answers);
  State Answer(size_t stream, const absl::StatusOr<std::string>& response, std::string* answers);
  State Refuse(size_t stream, absl::string_view path, std::string* answers);

  const std::string token_;
  const std::function<bool()> is_serving_;
  std::string bytes_;
  size_t num_read_ = 0;  // of bytes_
  bool has_preface_ = false;
  bool has_acknowledged_ = false;
  bool is_stranger_ = false;  // its first call had no token
  int num_refused_ = 0;
  size_t last_stream_ = 0;
};

}  // namespace weir
