#include "tests/faults/campaign/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
// A direction that is slower than its sender holds this much back; then the sender has to wait.
constexpr size_t kMostPieces = 16;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void SendAtOnce(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Start(uint64_t seed) {
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return absl::InternalError(absl::StrCat("no eventfd: ", strerror(errno)));
  std::unique_ptr<Network> network(new Network(seed, wake));
  network->thread_ = std::thread([raw = network.get()] { raw->Carry(); });
  return network;
}

Network::~Network() {
  is_ending_ = true;
  Wake();
  thread_.join();
  for (const std::unique_ptr<Connection>& connection : connections_) Close(*connection, false);
  for (const auto& [name, link] : links_) close(link.listener);
  close(wake_);
}

absl::StatusOr<int> Network::AddLink(int server_port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 64) != 0 || getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::InternalError(absl::StrCat("no link: ", strerror(errno)));
  }
  const int name = ntohs(address.sin_port);
  absl::MutexLock lock(&mutex_);
  links_[name] = {.listener = listener, .server_port = server_port, .fault = {}};
  Wake();
  return name;
}

void Network::PointTo(int link, int server_port) {
  absl::MutexLock lock(&mutex_);
  links_.at(link).server_port = server_port;
}

void Network::SetFault(int link, const LinkFault& fault) {
  absl::MutexLock lock(&mutex_);
  links_.at(link).fault = fault;
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->link != link) continue;
    for (Pipe& pipe : connection->pipes) pipe.num_carried = 0;
  }
  Wake();
}

void Network::Reset(int link) {
  absl::MutexLock lock(&mutex_);
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->link == link && !connection->is_abandoned) connection->is_broken = true;
  }
  Wake();
}

void Network::Abandon(int link) {
  absl::MutexLock lock(&mutex_);
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->link == link) connection->is_abandoned = true;
  }
}

void Network::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void Network::Close(Connection& connection, bool with_reset) {
  for (const int fd : {connection.client, connection.server}) {
    if (fd < 0) continue;
    const linger reset{.l_onoff = 1, .l_linger = 0};
    if (with_reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
  }
}

void Network::Accept(int name, Link& link) {
  for (int client; (client = accept4(link.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    auto connection = std::make_unique<Connection>();
    connection->link = name;
    connection->client = client;
    connection->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(link.server_port);
    // On loopback this does not wait.
    if (link.fault.refuses ||
        connect(connection->server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      Close(*connection, true);
      continue;
    }
    fcntl(connection->server, F_SETFL, O_NONBLOCK);
    SendAtOnce(client);
    SendAtOnce(connection->server);
    connection->pipes[0] = {.from = client, .to = connection->server, .is_request = true};
    connection->pipes[1] = {.from = connection->server, .to = client};
    connections_.push_back(std::move(connection));
  }
}

bool Network::Stalls(const Connection& connection, const Pipe& pipe) const {
  const LinkFault& fault = links_.at(connection.link).fault;
  return connection.is_abandoned || (pipe.is_request ? fault.stalls_requests : fault.stalls_replies);
}

// Takes what has arrived, and passes on what is due.
void Network::Move(Connection& connection, Pipe& pipe, bool is_readable) {
  const LinkFault& fault = links_.at(connection.link).fault;
  if (is_readable && !pipe.is_at_end && pipe.pieces.size() < kMostPieces) {
    std::string bytes(kPieceBytes, '\0');
    const ssize_t count = read(pipe.from, bytes.data(), bytes.size());
    if (count == 0) pipe.is_at_end = true;
    if (count < 0 && errno != EAGAIN && errno != EINTR) connection.is_broken = true;
    if (count > 0) {
      bytes.resize(static_cast<size_t>(count));
      absl::Time due = absl::Now() + fault.delay;
      if (fault.jitter > absl::ZeroDuration()) {
        due += fault.jitter * std::uniform_real_distribution<double>(0, 1)(random_);
      }
      if (fault.bytes_per_second > 0) {
        due = std::max(due, pipe.last_due) +
              absl::Seconds(static_cast<double>(count) / static_cast<double>(fault.bytes_per_second));
      }
      pipe.last_due = std::max(due, pipe.last_due);
      pipe.pieces.push_back({pipe.last_due, std::move(bytes)});
    }
  }
  while (!pipe.pieces.empty() && pipe.pieces.front().due <= absl::Now()) {
    const std::string& bytes = pipe.pieces.front().bytes;
    size_t limit = bytes.size();
    if (fault.cut_after >= 0) {
      limit = std::min(limit, pipe.num_sent + static_cast<size_t>(
                                                  std::max<int64_t>(0, fault.cut_after - pipe.num_carried)));
    }
    const ssize_t count = send(pipe.to, bytes.data() + pipe.num_sent, limit - pipe.num_sent, MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) connection.is_broken = true;
    if (count < 0) return;
    pipe.num_sent += static_cast<size_t>(count);
    pipe.num_carried += count;
    if (fault.cut_after >= 0 && pipe.num_carried >= fault.cut_after) {
      connection.is_broken = true;
      return;
    }
    if (pipe.num_sent < bytes.size()) return;
    pipe.pieces.pop_front();
    pipe.num_sent = 0;
  }
}

void Network::Carry() {
  while (!is_ending_) {
    std::vector<pollfd> events = {{wake_, POLLIN, 0}};
    absl::Time next = absl::Now() + absl::Seconds(1);
    {
      absl::MutexLock lock(&mutex_);
      for (const auto& [name, link] : links_) events.push_back({link.listener, POLLIN, 0});
      for (const std::unique_ptr<Connection>& connection : connections_) {
        for (const Pipe& pipe : connection->pipes) {
          const bool stalls = Stalls(*connection, pipe);
          const bool reads = !stalls && !pipe.is_at_end && pipe.pieces.size() < kMostPieces;
          events.push_back({reads ? pipe.from : -1, POLLIN, 0});
          // A receiver that does not read is looked at again soon, which is enough here.
          if (!stalls && !pipe.pieces.empty()) {
            next = std::min(next, std::max(pipe.pieces.front().due, absl::Now() + absl::Milliseconds(1)));
          }
        }
      }
    }
    const int64_t left_ms = absl::ToInt64Milliseconds(next - absl::Now());
    poll(events.data(), events.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 0, 1000)));
    uint64_t wakes;
    [[maybe_unused]] const ssize_t drained = read(wake_, &wakes, sizeof(wakes));
    absl::MutexLock lock(&mutex_);
    const auto is_readable = [&](int fd) {
      return std::any_of(events.begin(), events.end(),
                         [fd](const pollfd& event) { return event.fd == fd && event.revents != 0; });
    };
    for (auto& [name, link] : links_) {
      if (is_readable(link.listener)) Accept(name, link);
    }
    for (const std::unique_ptr<Connection>& connection : connections_) {
      for (Pipe& pipe : connection->pipes) {
        if (!connection->is_broken && !Stalls(*connection, pipe)) {
          Move(*connection, pipe, is_readable(pipe.from));
        }
      }
    }
    std::erase_if(connections_, [this](const std::unique_ptr<Connection>& connection) {
      const bool is_over =
          std::any_of(std::begin(connection->pipes), std::end(connection->pipes),
                      [](const Pipe& pipe) { return pipe.is_at_end && pipe.pieces.empty(); });
      if (!connection->is_broken && (!is_over || connection->is_abandoned)) return false;
      Close(*connection, connection->is_broken);
      return true;
    });
  }
}

}  // namespace weir
