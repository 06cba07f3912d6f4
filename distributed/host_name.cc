#include "distributed/host_name.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "kernels/environment.h"
#include "kernels/notice.h"
#include "kernels/process_clock.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
constexpr absl::Duration kReportInterval = absl::Seconds(10);

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// `flags`: AI_NUMERICHOST, so that nobody is asked; an error then says that it is no address.
absl::StatusOr<HostAddresses> AskSystem(const std::string& host, int flags = 0) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    const std::string message = absl::StrCat("host name '", host, "': ", gai_strerror(error));
    const bool is_unknown = error == EAI_NONAME || error == EAI_NODATA;
    return is_unknown ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  HostAddresses result;
  result.is_loopback = true;
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(it->ai_addr, it->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    result.is_loopback = result.is_loopback && IsLoopback(it->ai_addr);
    if (std::find(result.addresses.begin(), result.addresses.end(), text) == result.addresses.end()) {
      result.addresses.emplace_back(text);
    }
  }
  freeaddrinfo(found);
  return result;
}

// What the asking thread and the one that looks up share.
struct Lookup {
  absl::Mutex mutex;
  bool is_done ABSL_GUARDED_BY(mutex) = false;
  absl::StatusOr<HostAddresses> result ABSL_GUARDED_BY(mutex) = absl::UnknownError("no answer");
};

}  // namespace

bool IsLoopbackHost(absl::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  sockaddr_in ipv4{};
  sockaddr_in6 ipv6{};
  // Not by how it begins: 127.example.com may be anywhere.
  if (inet_pton(AF_INET, text.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    return IsLoopback(reinterpret_cast<const sockaddr*>(&ipv4));
  }
  if (inet_pton(AF_INET6, text.c_str(), &ipv6.sin6_addr) != 1) return false;
  ipv6.sin6_family = AF_INET6;
  return IsLoopback(reinterpret_cast<const sockaddr*>(&ipv6));
}

absl::StatusOr<HostAddresses> LookUpHost(const std::string& host, absl::Duration timeout) {
  if (absl::StatusOr<HostAddresses> address = AskSystem(host, AI_NUMERICHOST); address.ok()) return address;
  auto lookup = std::make_shared<Lookup>();
  absl::StatusOr<std::thread> thread = StartSystemThread([lookup, host] {
    absl::StatusOr<HostAddresses> result = AskSystem(host);
    absl::MutexLock lock(&lookup->mutex);
    lookup->result = std::move(result);
    lookup->is_done = true;
  });
  if (!thread.ok()) {
    // Looked up again, as after a name server that does not answer.
    return absl::UnavailableError(absl::StrCat("host name '", host, "': ", thread.status().message()));
  }
  thread->detach();
  {
    Environment& environment = RealEnvironment();
    absl::MutexLock lock(&lookup->mutex);
    if (environment.Await(lookup->mutex, absl::Condition(&lookup->is_done), environment.Now() + timeout)) {
      return lookup->result;
    }
  }
  return absl::UnavailableError(absl::StrCat("host name '", host, "': no answer from the name server within ",
                                             absl::FormatDuration(timeout)));
}

absl::StatusOr<HostAddresses> AwaitHost(absl::string_view who, const std::string& host, absl::Time deadline,
                                        const HostLookup& lookup) {
  const absl::Time start = ProcessNow();
  absl::Time next_report = start;
  absl::Duration pause = kFirstPause;
  while (true) {
    absl::StatusOr<HostAddresses> found = lookup(host);
    if (found.ok()) return found;
    const absl::Duration left = deadline - ProcessNow();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          absl::StrCat(who, ": ", found.status().message(), "; it did not resolve within ",
                       absl::FormatDuration(absl::Trunc(ProcessNow() - start, absl::Milliseconds(1)))));
    }
    if (ProcessNow() >= next_report) {
      next_report = ProcessNow() + kReportInterval;
      PrintNotice(absl::StrCat(who, " waits until it resolves: ", found.status().message(), " (",
                               absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))), " left)"));
    }
    absl::SleepFor(std::min(pause, left));
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace weir
