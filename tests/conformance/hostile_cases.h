// Calls of ops that only a step can refuse, as data: inputs of good types whose values or shapes do not fit.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {

struct HostileCase {
  std::string op;
  AttrMap attrs;
  std::vector<CaseInput> inputs;
  std::string error;  // a part of its text
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

// Tensors of more than this many bytes find no memory on the device that runs the cases.
inline constexpr int64_t kHostileDeviceBytes = int64_t{1} << 28;
// A float variable [2] of this name exists there.
inline constexpr char kHostileVariable[] = "taken";

}  // namespace weir::conformance
