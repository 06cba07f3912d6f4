// Looking up the names of hosts, with a bound on the time it takes.
//
// The name of a task may not exist yet when others ask for it: Kubernetes gives a pod its name in DNS when
// the pod runs. So a name that is unknown is waited for, and what is waited for is said on stderr.
//
// Thread safety: all functions. A look-up that takes longer than it may goes on in a thread of its own, for
// which nobody waits; the resolver's own time limits (resolv.conf) end it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weir {

struct HostAddresses {
  std::vector<std::string> addresses;  // "10.0.0.5", "fd00::5"; each once
  bool is_loopback = false;            // only this machine can reach any of them
};

// Also takes addresses in the place of a name, for which nobody is waited. Possible errors: NotFound (there
// is no such name now), Unavailable (the name server has trouble, or does not answer within `timeout`).
absl::StatusOr<HostAddresses> LookUpHost(const std::string& host, absl::Duration timeout);

// Whether the text alone says that only this machine can reach the host: "localhost", "127.0.0.1", "::1".
bool IsLoopbackHost(absl::string_view host);

using HostLookup = std::function<absl::StatusOr<HostAddresses>(const std::string& host)>;

// Asks again until the name is known or the deadline passes; then Unavailable, which is worth a restart.
// `who` stands in what is said meanwhile, at once and every 10 s.
absl::StatusOr<HostAddresses> AwaitHost(absl::string_view who, const std::string& host, absl::Time deadline,
                                        const HostLookup& lookup);

}  // namespace weir
