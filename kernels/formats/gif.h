// Images as GIF files (GIF89a), through giflib: each frame as it is seen.
//
// Contents may be hostile: frames are decoded and counted first, line by line, and memory is asked for once,
// for all that will be given. Errors of the library come back as a status.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

// Gives the memory for [frames, height, width, 3] bytes, or an error that is the decoder's.
using AllocateFrames =
    absl::FunctionRef<absl::StatusOr<uint8_t*>(int64_t frames, int64_t height, int64_t width)>;

// Frames are as large as the largest one; where one has no pixel, or a transparent one, that of the frame
// before is seen, and black in the first. Frames end before one without pixels or of 2^31 and
// more, and before one that the file does not hold to its end. InvalidArgument for what is no GIF file, for
// one without frames or colors, and for one whose frames take 2^31 bytes or more.
absl::Status DecodeGif(absl::string_view contents, bool first_frame_only, AllocateFrames allocate);

}  // namespace weir
