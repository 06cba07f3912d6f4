// gRPC's health service (grpc.health.v1.Health), for probes, which carry no token.
//
// Check and List say whether the task serves. What Check asks about is not looked at: a task is healthy or
// not as a whole, and List names one service, the empty name, which stands for all. Watch is Unimplemented:
// its stream would be a stranger's for as long as it likes. The protocol says what a client does then: it
// takes the server for healthy, and asks no more.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

inline constexpr char kHealthService[] = "/grpc.health.v1.Health/";

// The answer, which need not know the request; nullopt for a method of another service.
inline std::optional<absl::StatusOr<std::string>> AnswerHealthCheck(absl::string_view method,
                                                                    bool is_serving) {
  if (method.substr(0, sizeof(kHealthService) - 1) != kHealthService) return std::nullopt;
  method.remove_prefix(sizeof(kHealthService) - 1);
  // A HealthCheckResponse: field 1, the ServingStatus.
  constexpr char kServing = 1, kNotServing = 2;
  const std::string response = {'\x08', is_serving ? kServing : kNotServing};
  if (method == "Check") return response;
  // A HealthListResponse: field 1, a map. The entry's key, field 1, is empty; its value is field 2.
  if (method == "List") return std::string{'\x0a', 6, '\x0a', 0, '\x12', 2} + response;
  return absl::UnimplementedError("this server has Check and List of gRPC's health service, and no Watch");
}

}  // namespace weir
