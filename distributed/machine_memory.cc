#include "distributed/machine_memory.h"

#include <unistd.h>

namespace weir {

int64_t HalfOfMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? pages / 2 * page_bytes : int64_t{8} << 30;
}

}  // namespace weir
