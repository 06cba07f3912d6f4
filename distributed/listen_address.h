// Where a task listens, and lines on stderr about who can reach it there.
//
// Stateless. The warnings ask the name server, and may take seconds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "distributed/cluster_spec.h"
#include "distributed/security.h"
#include "distributed/task_config.h"

namespace weir {

// What `listen` (ServerOptions::listen) leaves open is the cluster address's. InvalidArgument for what is no
// address.
absl::StatusOr<HostPort> ListenAddress(const std::string& listen, const std::string& cluster_address);

// A task that only its own machine can reach is of no use to others; /etc/hosts of some systems (127.0.1.1)
// makes a machine's own name so. Says nothing while it is not known whether there are other machines.
void WarnOfUnreachable(const TaskConfig& task, const HostPort& address);

// Who can use this task, or take the job's token, although nobody has allowed it. `own`: what the others call
// this task; `is_loopback`: it listens to its own machine alone.
void WarnOfStrangers(const TaskConfig& task, const SecurityOptions& security, const HostPort& own,
                     bool is_loopback);

}  // namespace weir
