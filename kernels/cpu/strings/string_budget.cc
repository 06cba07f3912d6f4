#include "kernels/cpu/strings/string_budget.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/string_room.h"

namespace weir {

absl::Status StringBudget::Take(int64_t num_bytes) {
  if (context_.cancellation().is_cancelled()) return context_.cancellation().reason();
  if (num_bytes > INT64_MAX / 4 - num_taken_) {
    return absl::ResourceExhaustedError(absl::StrCat("out of memory for a string of ", num_bytes, " bytes"));
  }
  num_taken_ += num_bytes;
  if (num_taken_ <= num_granted_) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(CheckRoom(context_, num_taken_, 1));
  num_granted_ = 2 * num_taken_;  // asks seldom
  return absl::OkStatus();
}

}  // namespace weir
