// How many files, and with them connections, this process may have open at a time (RLIMIT_NOFILE), and for
// whom they are.
//
// Many systems begin with a soft limit of 1024, for programs that use select(2), which Weir does not, below a
// hard limit that is much higher. Thread safety: all functions; the limit is the process's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace weir {

// Raises the soft limit to the hard one, where the system lets it, and gives what it is then.
int64_t RaiseDescriptorLimit();

// How many descriptors may be in use when one more connection is accepted: the rest is for files.
int DescriptorsForConnections(int64_t limit);

// Connections that may wait to be let in.
struct StrangerRoom {
  size_t at_grpc = 0;     // with TLS two descriptors each
  size_t at_sockets = 0;  // those beside gRPC (transport/sockets)
};

// What a task of a job of so many tasks has for them below such a limit: as many as they may ever be
// (GrpcOptions, SocketTransportOptions), fewer where the job and its files need the descriptors, and some
// always: otherwise nobody could come.
StrangerRoom RoomForStrangers(int64_t num_tasks, bool uses_tls, int64_t limit);

// How many a task of such a job may come to need: two connections of gRPC and two of the sockets beside it
// with each other task, one of each kind in each direction; what it opens itself; the least room for
// strangers.
int64_t DescriptorsForTasks(int64_t num_tasks, bool uses_tls);

// FailedPrecondition when a task can have too few for itself: it would let nobody in, and the others would
// wait for it as for one that is not there.
absl::Status CheckDescriptors(const std::string& task, int64_t limit);

// A line for people when a task of such a job may run out of them; empty otherwise.
std::string WordsOfDescriptors(const std::string& task, int64_t num_tasks, bool uses_tls, int64_t limit);

}  // namespace weir
