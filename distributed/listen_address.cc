#include "distributed/listen_address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/host_name.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"

namespace weir {

absl::StatusOr<HostPort> ListenAddress(const std::string& listen, const std::string& cluster_address) {
  WEIR_ASSIGN_OR_RETURN(HostPort address, HostPort::Parse(cluster_address));
  if (listen.empty()) return address;
  const bool is_bracketed = listen.front() == '[' && listen.back() == ']';
  const std::string host = is_bracketed ? listen.substr(1, listen.size() - 2) : listen;
  in6_addr ipv6;
  if (inet_pton(AF_INET6, host.c_str(), &ipv6) == 1 || (!is_bracketed && !absl::StrContains(host, ':'))) {
    address.host = host;
    // Checks the characters.
    return HostPort::Parse(address.ToString());
  }
  return HostPort::Parse(listen);
}

void WarnOfUnreachable(const TaskConfig& task, const HostPort& address) {
  for (const TaskName& other : task.cluster().tasks()) {
    const absl::StatusOr<HostPort> peer = HostPort::Parse(task.cluster().address(other).value_or(""));
    if (!peer.ok() || peer->host == address.host) continue;
    const absl::StatusOr<HostAddresses> found = LookUpHost(peer->host, absl::Seconds(1));
    if (!found.ok()) return;
    if (found->is_loopback) continue;
    PrintNotice(absl::StrCat(task.task().ToString(), " listens at ", address.ToString(),
                             ", which only this machine can reach, but ", other.ToString(), " is at ",
                             peer->ToString(), ": set WEIR_LISTEN=0.0.0.0 to listen on all interfaces"));
    return;
  }
}

void WarnOfStrangers(const TaskConfig& task, const SecurityOptions& security, const HostPort& own,
                     bool is_loopback) {
  const std::string name = task.task().ToString();
  if (security.insecure) return;
  if (is_loopback && !security.authenticates()) {
    PrintNotice(absl::StrCat(name,
                             " listens without a token: every user of this machine can run graphs in it, "
                             "which read, write and delete files as you; set WEIR_JOB_TOKEN"));
  }
  if (security.token.empty() || security.uses_tls()) return;
  for (const TaskName& other : task.cluster().tasks()) {
    const absl::StatusOr<HostPort> peer = HostPort::Parse(task.cluster().address(other).value_or(""));
    if (!peer.ok() || peer->host == own.host || IsLoopbackHost(peer->host)) continue;
    PrintNotice(absl::StrCat(name, " sends the job's token to ", other.ToString(), " (", peer->ToString(),
                             ") unencrypted: who can listen to that network can use the job; TLS with a CA "
                             "prevents it"));
    return;
  }
}

}  // namespace weir
