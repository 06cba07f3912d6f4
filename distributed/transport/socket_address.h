// Addresses of TCP sockets as they are written, and which of them belong together. Thread safety: all
// functions.
#pragma once

#include <sys/socket.h>

#include <string>

#include "absl/strings/string_view.h"

namespace weir {

// "10.0.0.1:80", "[fd00::1]:80".
std::string AddressText(const sockaddr_storage& address);

// The same of an address as transports write it: "ipv4:10.0.0.1:80", or gRPC's "ipv6:%5Bfd00::1%5D:80". The
// scope of a local address ("%eth0") is left out.
std::string AddressText(absl::string_view address);

// Its network: an IPv4 address, or the 64 bits of an IPv6 address that a site has.
std::string NetworkOf(const sockaddr_storage& address);

}  // namespace weir
