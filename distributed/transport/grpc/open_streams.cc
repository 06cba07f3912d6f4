#include "distributed/transport/grpc/open_streams.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace weir {
namespace {

using Json = nlohmann::json;

Json Parse(char* text) {
  const std::unique_ptr<char, decltype(&gpr_free)> owned(text, gpr_free);
  return text == nullptr ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

const Json& At(const Json& object, const char* key) {
  static const Json* const kNothing = new Json();
  const auto found = object.find(key);
  return found == object.end() ? *kNothing : *found;
}

// 64-bit numbers are texts, and what is 0 is not there.
int64_t NumberAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  int64_t number = 0;
  if (value.is_number_integer()) return value.get<int64_t>();
  return value.is_string() && absl::SimpleAtoi(value.get_ref<const std::string&>(), &number) ? number : 0;
}

// Its name is "chttp2 ipv4:127.0.0.1:43210".
std::string ClientOf(const Json& socket_reference) {
  const Json& name = At(socket_reference, "name");
  if (!name.is_string()) return "";
  const absl::string_view text = name.get_ref<const std::string&>();
  return std::string(text.substr(text.rfind(' ') + 1));
}

void AddStreamsOfServer(int64_t server, int port, std::map<std::string, int64_t>* streams) {
  for (int64_t first = 0;;) {
    const Json page = Parse(grpc_channelz_get_server_sockets(server, first, /*max_results=*/0));
    const Json& references = At(page, "socketRef");
    for (const Json& reference : references) {
      const int64_t number = NumberAt(reference, "socketId");
      first = number + 1;
      const Json answer = Parse(grpc_channelz_get_socket(number));
      const Json& socket = At(answer, "socket");
      if (NumberAt(At(At(socket, "local"), "tcpip_address"), "port") != port) continue;
      const Json& data = At(socket, "data");
      (*streams)[ClientOf(reference)] += NumberAt(data, "streamsStarted") -
                                         NumberAt(data, "streamsSucceeded") - NumberAt(data, "streamsFailed");
    }
    if (references.empty() || At(page, "end") == true) return;
  }
}

}  // namespace

std::map<std::string, int64_t> OpenStreams(int port) {
  std::map<std::string, int64_t> streams;
  for (int64_t first = 0;;) {
    const Json page = Parse(grpc_channelz_get_servers(first));
    const Json& servers = At(page, "server");
    for (const Json& server : servers) {
      const int64_t number = NumberAt(At(server, "ref"), "serverId");
      first = number + 1;
      AddStreamsOfServer(number, port, &streams);
    }
    if (servers.empty() || At(page, "end") == true) return streams;
  }
}

}  // namespace weir
