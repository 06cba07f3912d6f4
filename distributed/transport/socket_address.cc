#include "distributed/transport/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace weir {

std::string AddressText(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(ipv4->sin_port));
  }
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(&address);
  constexpr size_t kMapped = 12;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr)) {
    inet_ntop(AF_INET, ipv6->sin6_addr.s6_addr + kMapped, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(ipv6->sin6_port));
  }
  inet_ntop(AF_INET6, &ipv6->sin6_addr, host, sizeof(host));
  return absl::StrCat("[", host, "]:", ntohs(ipv6->sin6_port));
}

std::string AddressText(absl::string_view address) {
  address.remove_prefix(std::min(address.find(':') + 1, address.size()));
  std::string name = absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}});
  const size_t scope = name.find('%'), end = name.find(']');
  if (scope < end && end != std::string::npos) name.erase(scope, end - scope);
  return name;
}

std::string NetworkOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(&address);
    return std::string(reinterpret_cast<const char*>(&ipv4->sin_addr), sizeof(ipv4->sin_addr));
  }
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(&address);
  const auto* const bytes = reinterpret_cast<const char*>(&ipv6->sin6_addr);
  constexpr size_t kSite = 8, kMapped = 12, kBytes = 16;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr)) return std::string(bytes + kMapped, kBytes - kMapped);
  return std::string(bytes, kSite);
}

}  // namespace weir
