// TCP ports on loopback that nobody listens on.
//
// They lie below the range the kernel gives to outgoing connections: a client that keeps dialling a port of
// that range before its server is up can be connected to itself, and then the server can never bind it.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// `count` different ports, none of which somebody has reserved. Nothing reserves them: bind soon.
// ResourceExhausted when there are not that many.
absl::StatusOr<std::vector<int>> FindFreePorts(int count);

// Free ports that nobody else who asks here is given, in any process of this network namespace, while this
// lives and this process runs: also when nobody listens there yet, or for a while. Costs a descriptor for
// each (of a Unix socket whose abstract name stands for the port). Any thread, one at a time.
class ReservedPorts {
 public:
  // ResourceExhausted as FindFreePorts.
  static absl::StatusOr<ReservedPorts> Take(int count);
  ReservedPorts() = default;
  ReservedPorts(ReservedPorts&& other) noexcept { *this = std::move(other); }
  ReservedPorts& operator=(ReservedPorts&& other) noexcept {
    std::swap(ports_, other.ports_);
    std::swap(fds_, other.fds_);
    return *this;
  }
  ~ReservedPorts();

  const std::vector<int>& ports() const { return ports_; }
  int operator[](size_t i) const { return ports_[i]; }

 private:
  std::vector<int> ports_, fds_;
};

}  // namespace weir
