#include "kernels/formats/memory_probe.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr uint64_t kSmallBytes = 1 << 20;

}  // namespace

absl::Status ProbeMemory(absl::string_view what, uint64_t num_bytes) {
  if (num_bytes <= kSmallBytes) return absl::OkStatus();
  // Volatile, or the compiler leaves out an allocation that nobody uses.
  void* volatile const memory = num_bytes <= SIZE_MAX / 2 ? std::malloc(num_bytes) : nullptr;
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": no memory for ", num_bytes, " bytes"));
  }
  std::free(memory);
  return absl::OkStatus();
}

}  // namespace weir
