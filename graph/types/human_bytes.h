// Numbers of bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

// "512 B", "1.2 MB"; powers of 1000.
std::string HumanBytes(uint64_t num_bytes);

}  // namespace weir
