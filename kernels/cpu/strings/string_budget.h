// Asks for room before a kernel makes strings whose number or length a few bytes of input decide
// (kernels/cpu/string_room.h). Not thread safe; lives during one Compute.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/kernel_context.h"

namespace weir {

class StringBudget {
 public:
  explicit StringBudget(KernelContext& context) : context_(context) {}

  // Before a string of that many bytes is made. ResourceExhausted when all of them together do not fit in the
  // device's memory; the reason when the step is cancelled: very many strings take long.
  absl::Status Take(int64_t num_bytes);

 private:
  KernelContext& context_;
  int64_t num_taken_ = 0;
  int64_t num_granted_ = int64_t{1} << 20;  // less than this is in no danger
};

}  // namespace weir
