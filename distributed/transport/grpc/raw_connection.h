// For tests: a TCP connection to this machine, which speaks as much HTTP/2 (RFC 9113) as it takes to call
// with a token or without, and as no client of gRPC would.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace weir {

inline std::string Http2Frame(int type, int flags, uint32_t stream, absl::string_view payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift));
  return absl::StrCat(frame, payload);
}

inline std::string Http2Greeting() {
  constexpr int kSettings = 4;
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Http2Frame(kSettings, 0, 0, ""));
}

// The headers of a call. Without a token when it is empty. Headers that are `kept` Http2CallAgain can name.
inline std::string Http2Call(uint32_t stream, absl::string_view path, absl::string_view token = "",
                             bool kept = false) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {":method", "POST"}, {":scheme", "http"}, {":path", std::string(path)},
      {":authority", "x"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
  if (!token.empty()) fields.emplace_back("weir-token", token);
  std::string block;
  for (const auto& [name, value] : fields) {
    // Not compressed, and with or without an index (RFC 7541, 6.2.1 and 6.2.2).
    absl::StrAppend(&block, std::string(1, kept ? '\x40' : '\0'),
                    std::string(1, static_cast<char>(name.size())), name,
                    std::string(1, static_cast<char>(value.size())), value);
  }
  constexpr int kHeaders = 1, kEndHeaders = 4;
  return Http2Frame(kHeaders, kEndHeaders, stream, block);
}

// A call like the one before it, which had a token and was kept, in the fewest bytes.
inline std::string Http2CallAgain(uint32_t stream) {
  constexpr int kHeaders = 1, kEndHeaders = 4;
  return Http2Frame(kHeaders, kEndHeaders, stream, "\xc4\xc3\xc2\xc1\xc0\xbf\xbe");
}

inline std::string Http2Reset(uint32_t stream) {
  constexpr int kResetStream = 3;
  return Http2Frame(kResetStream, 0, stream, std::string("\0\0\0\x08", 4));
}

class RawConnection {
 public:
  explicit RawConnection(int port, bool over_ipv6 = false)
      : fd_(socket(over_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in ipv4{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 ipv6{.sin6_family = AF_INET6, .sin6_port = htons(static_cast<uint16_t>(port))};
    ipv6.sin6_addr = in6addr_loopback;
    is_open_ = over_ipv6 ? connect(fd_, reinterpret_cast<sockaddr*>(&ipv6), sizeof(ipv6)) == 0
                         : connect(fd_, reinterpret_cast<sockaddr*>(&ipv4), sizeof(ipv4)) == 0;
    fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  RawConnection(const RawConnection&) = delete;
  ~RawConnection() { close(fd_); }

  bool is_open() const { return is_open_; }
  // The first of what the server has said.
  const std::string& heard() const { return heard_; }

  // Writes until the server has taken everything or closes.
  void Write(absl::string_view bytes) {
    while (!bytes.empty() && is_open_) {
      Await(POLLIN | POLLOUT, 1000);
      const ssize_t written = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (written > 0) {
        bytes.remove_prefix(written);
      } else if (errno != EAGAIN && errno != EINTR) {
        is_open_ = false;
      }
      Read();
    }
  }

  // Whether the server has closed within the time.
  bool AwaitClose(absl::Duration timeout = absl::Seconds(60)) {
    const absl::Time deadline = absl::Now() + timeout;
    do {
      Await(POLLIN, timeout > absl::ZeroDuration() ? 20 : 0);
      Read();
    } while (is_open_ && absl::Now() < deadline);
    return !is_open_;
  }

 private:
  static constexpr size_t kMaxHeard = 64 << 10;

  void Await(short events, int timeout_ms) {
    pollfd event = {fd_, events, 0};
    poll(&event, 1, timeout_ms);
  }

  void Read() {
    char buffer[64 << 10];
    while (is_open_) {
      const ssize_t num_read = read(fd_, buffer, sizeof(buffer));
      if (num_read < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (num_read <= 0) {
        is_open_ = false;
      } else if (heard_.size() < kMaxHeard) {
        heard_.append(buffer, num_read);
      }
    }
  }

  const int fd_;
  bool is_open_ = false;
  std::string heard_;
};

}  // namespace weir
