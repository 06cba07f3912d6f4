#include "tests/benchmarks/raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/benchmarks/measure.h"

namespace weir::bench {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// One side of the exchanges.
class Side {
 public:
  Side(int fd, const RawExchange& exchange, bool is_first)
      : fd_(fd),
        exchange_(exchange),
        is_first_(is_first),
        out_(exchange.num_bytes, 'o'),
        in_(exchange.num_bytes, 'i') {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }

  // False when the other side has ended.
  bool Exchange() {
    if (!exchange_.is_in_turn) return Move(/*sends=*/true, /*receives=*/true);
    return Move(is_first_, !is_first_) && Move(!is_first_, is_first_);
  }

 private:
  bool Move(bool sends, bool receives) {
    size_t to_send = sends ? out_.size() : 0, to_receive = receives ? in_.size() : 0;
    while (to_send > 0 || to_receive > 0) {
      bool has_moved = false;
      if (to_send > 0) {
        const ssize_t count =
            send(fd_, out_.data() + (out_.size() - to_send), to_send, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN) return false;
        if (count > 0) to_send -= static_cast<size_t>(count);
        has_moved = count > 0;
      }
      if (to_receive > 0) {
        // Without anything to send it waits here.
        const ssize_t count =
            recv(fd_, in_.data() + (in_.size() - to_receive), to_receive, to_send > 0 ? MSG_DONTWAIT : 0);
        if (count == 0 || (count < 0 && errno != EAGAIN)) return false;
        if (count > 0) to_receive -= static_cast<size_t>(count);
        has_moved = has_moved || count > 0;
      }
      if (has_moved) continue;
      pollfd ready{fd_, static_cast<short>((to_send > 0 ? POLLOUT : 0) | (to_receive > 0 ? POLLIN : 0)), 0};
      poll(&ready, 1, -1);
    }
    return true;
  }

  const int fd_;
  const RawExchange exchange_;
  const bool is_first_;
  std::string out_, in_;
};

}  // namespace

int RawPeer(int port, const RawExchange& exchange) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Fail("cannot connect for a raw exchange");
  }
  Side side(fd, exchange, /*is_first=*/false);
  while (side.Exchange()) {
  }
  close(fd);
  return 0;
}

double RawExchangeSeconds(const RawExchange& exchange, int num_calls, int rounds) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (listening < 0 || bind(listening, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listening, 1) != 0 ||
      getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    Fail("cannot listen for a raw exchange");
  }
  const std::string port = absl::StrCat(ntohs(address.sin_port)), bytes = absl::StrCat(exchange.num_bytes);
  const pid_t peer = ::fork();
  if (peer < 0) Fail("cannot start a process");
  if (peer == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", "weir_bench", "raw_peer", port.c_str(), bytes.c_str(),
            exchange.is_in_turn ? "in_turn" : "at_once", nullptr);
    ::_exit(127);
  }
  const int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  close(listening);
  if (fd < 0) Fail("nobody has connected for a raw exchange");
  std::vector<double> seconds;
  {
    Side side(fd, exchange, /*is_first=*/true);
    for (int round = -1; round < rounds; ++round) {  // the first warms up
      const absl::Time begin = absl::Now();
      for (int call = 0; call < num_calls; ++call) {
        if (!side.Exchange()) Fail("a raw exchange has ended early");
      }
      if (round >= 0) seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin) / num_calls);
    }
  }
  close(fd);
  ::waitpid(peer, nullptr, 0);
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace weir::bench
