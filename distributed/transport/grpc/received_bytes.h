// How much has come through a TCP connection. (Linux's tcp_info, of which glibc's header knows only the older
// half, and cannot stand beside Linux's.)
#pragma once

#include <cstdint>

namespace weir {

// Since it was opened, of `fd`; 0 where the system does not say.
uint64_t BytesReceived(int fd);

}  // namespace weir
