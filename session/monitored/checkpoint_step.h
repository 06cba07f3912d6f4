// The step of a checkpoint. Thread safety: all functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/formats/file_system.h"

namespace weir {

// The step counter of the checkpoint ("/models/mine/model.ckpt-100"), 0 without one; `name` is that of its
// variable. Errors of reading it.
absl::StatusOr<int64_t> GlobalStepOf(const std::string& checkpoint, FileSystem& files,
                                     const std::string& name = "global_step");

}  // namespace weir
