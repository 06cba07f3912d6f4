#include "graph/types/human_bytes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weir {

std::string HumanBytes(uint64_t num_bytes) {
  if (num_bytes < 1000) return absl::StrCat(num_bytes, " B");
  double value = static_cast<double>(num_bytes);
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (value < 999.95) break;
    value /= 1000;
    unit = larger;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

}  // namespace weir
