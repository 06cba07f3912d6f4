// Sound as WAV files: uncompressed samples of 16 bits (RIFF WAVE with a "fmt " chunk of format 1, PCM, as in
// "Multimedia Programming Interface and Data Specifications 1.0", IBM and Microsoft, 1991).
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weir {

// What a file says it is. `samples` has frames * channels little-endian numbers of 16 bits, frame by frame;
// it lies in the file's contents.
struct WavSound {
  uint32_t rate = 0;  // frames a second
  int64_t channels = 0, frames = 0;
  bool has_samples = false;  // true of what ReadWav gives
  absl::string_view samples;

  // In [-1, 1). Precondition: in range.
  float sample(int64_t frame, int64_t channel) const;
};

// InvalidArgument for what is no such file. The first chunk must be "fmt ", any other one but "data" is
// skipped.
absl::StatusOr<WavSound> ReadWav(absl::string_view contents);

// Samples [frames, channels] as a file; they are rounded to 16 bits, those outside of [-1, 1) become the
// nearest number inside, NaN becomes 0. InvalidArgument for a rate or numbers of channels and frames that the
// format has no room for. Precondition: samples.size() is a multiple of channels, 0 where that is 0.
absl::StatusOr<std::string> WriteWav(absl::Span<const float> samples, int64_t channels, int64_t rate);

}  // namespace weir
