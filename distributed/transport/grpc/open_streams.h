// How many calls a gRPC server keeps of each client: also those that it has not taken yet, and those that
// were reset and are not gone yet. Each takes memory (rapid_resets.h), and gRPC tells of them in nothing but
// its statistics (channelz).
//
// Looks at each connection of the servers of this process, which takes some 20 us: for when something is
// wrong. Thread safety: all functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace weir {

// By client, as gRPC names it ("ipv4:127.0.0.1:43210"): those whose connections come to that port of this
// machine. Empty where gRPC has no statistics.
std::map<std::string, int64_t> OpenStreams(int port);

}  // namespace weir
