// Images as BMP files without compression: 8, 24 or 32 bits a pixel.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/formats/jpeg.h"

namespace weir {

// `channels` is 0 (as many as the file has), 3 or 4. InvalidArgument for what is no such file, and for one
// whose size is not what its header says.
absl::Status DecodeBmp(absl::string_view contents, int channels, AllocatePixels allocate);

}  // namespace weir
