// The floor under what goes over TCP: two processes that exchange bytes over one connection of loopback, with
// nothing but system calls. The other process is another weir_bench ("raw_peer").
#pragma once

#include <cstdint>

namespace weir::bench {

// What both sides do, in calls of the same number.
struct RawExchange {
  int64_t num_bytes = 0;    // each way
  bool is_in_turn = false;  // one side answers the other; otherwise both send and receive at once
};

// Seconds of one exchange: the median of `rounds` rounds of `num_calls` exchanges.
double RawExchangeSeconds(const RawExchange& exchange, int num_calls, int rounds);

// The other side; returns when the connection ends.
int RawPeer(int port, const RawExchange& exchange);

}  // namespace weir::bench
