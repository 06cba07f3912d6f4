#include "distributed/life.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace weir {

uint64_t TermAt(absl::Time now) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(now) >> 12, 1));
}

std::string LifeString(Incarnation life) {
  return absl::StrFormat("%x.%x", TermOf(life), life & ((Incarnation{1} << kSerialBits) - 1));
}

}  // namespace weir
