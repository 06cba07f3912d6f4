// gRPC's health service (grpc.health.v1.Health), as far as probes use it: Check. What it asks about is not
// looked at: a task is healthy or not as a whole. Probes carry no token.
#pragma once

#include <string>

namespace weir {

inline constexpr char kHealthCheckMethod[] = "/grpc.health.v1.Health/Check";

// A HealthCheckResponse: field 1, the ServingStatus.
inline std::string HealthCheckResponse(bool is_serving) {
  constexpr char kServing = 1, kNotServing = 2;
  return std::string{'\x08', is_serving ? kServing : kNotServing};
}

}  // namespace weir
