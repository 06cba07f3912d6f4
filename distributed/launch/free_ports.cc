#include "distributed/launch/free_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr int kLowestPort = 15'000;
constexpr int kUsualEphemeralStart = 32'768;

int EphemeralStart() {
  int start = kUsualEphemeralStart;
  if (FILE* file = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "re"); file != nullptr) {
    if (std::fscanf(file, "%d", &start) != 1) start = kUsualEphemeralStart;
    std::fclose(file);
  }
  return start > kLowestPort + 1000 ? start
                                    : 65'536;  // an unusual setting: take what there is above kLowestPort
}

bool IsFree(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;  // a server that just went leaves connections behind that do not hinder a new one
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return is_free;
}

// Whether somebody has reserved the port. Otherwise `fd` reserves it; -1 when the system gives none.
bool IsReserved(int port, int* fd) {
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (*fd < 0) return false;
  const std::string name = absl::StrCat("weir-port-", port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(*fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return false;
  const bool is_taken = errno == EADDRINUSE;
  close(std::exchange(*fd, -1));
  return is_taken;
}

// `reserved`: where the descriptors go that reserve the ports; null: nothing does.
absl::StatusOr<std::vector<int>> Find(int count, std::vector<int>* reserved) {
  const int end = EphemeralStart();
  const int num_candidates = end - kLowestPort;
  std::random_device random;  // a random start keeps launchers that run at the same time apart
  const int first = static_cast<int>(random() % num_candidates);
  std::vector<int> ports;
  for (int i = 0; i < num_candidates && static_cast<int>(ports.size()) < count; ++i) {
    const int port = kLowestPort + (first + i) % num_candidates;
    int fd = -1;
    if (IsReserved(port, &fd)) continue;
    const bool is_found = IsFree(port) && (fd >= 0 || reserved == nullptr);
    if (is_found) ports.push_back(port);
    if (is_found && reserved != nullptr) {
      reserved->push_back(fd);
    } else if (fd >= 0) {
      close(fd);
    }
  }
  if (static_cast<int>(ports.size()) == count) return ports;
  return absl::ResourceExhaustedError(absl::StrCat("wanted ", count, " free loopback ports, found ",
                                                   ports.size(), " between ", kLowestPort, " and ", end - 1));
}

}  // namespace

absl::StatusOr<std::vector<int>> FindFreePorts(int count) { return Find(count, nullptr); }

absl::StatusOr<ReservedPorts> ReservedPorts::Take(int count) {
  ReservedPorts taken;
  absl::StatusOr<std::vector<int>> ports = Find(count, &taken.fds_);
  if (!ports.ok()) return ports.status();
  taken.ports_ = *std::move(ports);
  return taken;
}

ReservedPorts::~ReservedPorts() {
  for (const int fd : fds_) close(fd);
}

}  // namespace weir
