// The version of Weir that this program is made of.
#pragma once

namespace weir {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace weir
