#include "kernels/formats/wav.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr int64_t kBytesOfNumber = 2;
constexpr float kScale = 1 << 15;

uint32_t Little(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << 8 * i;
  }
  return value;
}

// Takes a file from its front to its end.
class Reading {
 public:
  explicit Reading(absl::string_view contents) : rest_(contents) {}

  bool is_at_end() const { return rest_.empty(); }
  absl::StatusOr<absl::string_view> Bytes(uint64_t count) {
    if (count > rest_.size()) {
      return InvalidArgumentError(StrCat("Data too short when trying to read string: a WAV file ends ",
                                         rest_.size(), " bytes behind the place where ", count, " must be"));
    }
    const absl::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  absl::StatusOr<uint32_t> Number(int num_bytes) {
    WEIR_ASSIGN_OR_RETURN(const absl::string_view bytes, Bytes(static_cast<uint64_t>(num_bytes)));
    return Little(bytes);
  }
  absl::Status Expect(absl::string_view text) {
    WEIR_ASSIGN_OR_RETURN(const absl::string_view found, Bytes(text.size()));
    if (found == text) return absl::OkStatus();
    return InvalidArgumentError(StrCat("Header mismatch: Expected ", text, " but found ", found));
  }
  // What a chunk that nobody reads says of its length need not be true.
  void Skip(uint64_t count) { rest_.remove_prefix(std::min<uint64_t>(count, rest_.size())); }

 private:
  absl::string_view rest_;
};

// The chunk that begins with "fmt ".
absl::Status ReadFormat(Reading& file, WavSound* sound) {
  WEIR_RETURN_IF_ERROR(file.Expect("fmt "));
  WEIR_ASSIGN_OR_RETURN(const uint32_t size, file.Number(4));
  if (size != 16 && size != 18) {
    return InvalidArgumentError(StrCat("Bad format chunk size for WAV: Expected 16 or 18, but got ", size));
  }
  WEIR_ASSIGN_OR_RETURN(const uint32_t format, file.Number(2));
  if (format != 1) {
    return InvalidArgumentError(StrCat("Bad audio format for WAV: Expected 1 (PCM), but got ", format));
  }
  WEIR_ASSIGN_OR_RETURN(sound->channels, file.Number(2));
  if (sound->channels < 1) {
    return InvalidArgumentError(
        StrCat("Bad number of channels for WAV: Expected at least 1, but got ", sound->channels));
  }
  WEIR_ASSIGN_OR_RETURN(sound->rate, file.Number(4));
  WEIR_ASSIGN_OR_RETURN(const uint32_t bytes_per_second, file.Number(4));
  WEIR_ASSIGN_OR_RETURN(const int64_t bytes_per_frame, file.Number(2));
  WEIR_ASSIGN_OR_RETURN(const uint32_t bits, file.Number(2));
  if (bits != 8 * kBytesOfNumber) {
    return InvalidArgumentError(StrCat("Can only read 16-bit WAV files, but received ", bits));
  }
  if (bytes_per_frame != kBytesOfNumber * sound->channels) {
    return InvalidArgumentError(StrCat("Bad bytes per sample in WAV header: Expected ",
                                       kBytesOfNumber * sound->channels, " but got ", bytes_per_frame));
  }
  if (bytes_per_second != bytes_per_frame * int64_t{sound->rate}) {
    return InvalidArgumentError(StrCat(
        "Bad bytes per second in WAV header: Expected ", bytes_per_frame * int64_t{sound->rate}, " but got ",
        bytes_per_second, " (sample_rate=", sound->rate, ", bytes_per_sample=", bytes_per_frame, ")"));
  }
  return size == 18 ? file.Bytes(2).status() : absl::OkStatus();
}

// Its last bytes are no part of it where they are not a whole frame: TensorFlow looks for a chunk there.
absl::Status ReadSamples(Reading& file, uint32_t size, WavSound* sound) {
  if (sound->has_samples) return InvalidArgumentError("More than one data chunk found in WAV");
  sound->has_samples = true;
  sound->frames = size / (kBytesOfNumber * sound->channels);
  WEIR_ASSIGN_OR_RETURN(sound->samples,
                        file.Bytes(static_cast<uint64_t>(sound->frames * kBytesOfNumber * sound->channels)));
  return absl::OkStatus();
}

void Append(std::string* file, uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) file->push_back(static_cast<char>(value >> 8 * i & 0xff));
}

int16_t Rounded(float sample) {
  if (std::isnan(sample)) return 0;
  return static_cast<int16_t>(std::clamp(std::round(sample * kScale), -kScale, kScale - 1));
}

}  // namespace

float WavSound::sample(int64_t frame, int64_t channel) const {
  const auto at = static_cast<size_t>((frame * channels + channel) * kBytesOfNumber);
  return static_cast<float>(static_cast<int16_t>(Little(samples.substr(at, kBytesOfNumber)))) / kScale;
}

absl::StatusOr<WavSound> ReadWav(absl::string_view contents) {
  constexpr uint32_t kLongestChunk = std::numeric_limits<int32_t>::max();
  Reading file(contents);
  WavSound sound;
  WEIR_RETURN_IF_ERROR(file.Expect("RIFF"));
  WEIR_RETURN_IF_ERROR(file.Number(4).status());  // the length, which readers do not trust
  WEIR_RETURN_IF_ERROR(file.Expect("WAVE"));
  WEIR_RETURN_IF_ERROR(ReadFormat(file, &sound));
  while (!file.is_at_end()) {
    WEIR_ASSIGN_OR_RETURN(const absl::string_view name, file.Bytes(4));
    WEIR_ASSIGN_OR_RETURN(const uint32_t size, file.Number(4));
    if (size > kLongestChunk) {
      return InvalidArgumentError(StrCat("WAV data chunk '", name, "' is too large: ", size,
                                         " bytes, but the limit is ", kLongestChunk));
    }
    if (name == "data") {
      WEIR_RETURN_IF_ERROR(ReadSamples(file, size, &sound));
    } else {
      file.Skip(size);
    }
  }
  if (!sound.has_samples) return InvalidArgumentError("No data chunk found in WAV");
  return sound;
}

absl::StatusOr<std::string> WriteWav(absl::Span<const float> samples, int64_t channels, int64_t rate) {
  constexpr uint64_t kLargest = std::numeric_limits<uint32_t>::max(), kHeaderBytes = 44;
  if (rate <= 0 || static_cast<uint64_t>(rate) > kLargest) {
    return InvalidArgumentError(StrCat("sample_rate must be in (0, 2^32), got: ", rate));
  }
  if (channels <= 0 || channels > std::numeric_limits<uint16_t>::max()) {
    return InvalidArgumentError(StrCat("num_channels must be in (0, 2^16), got: ", channels));
  }
  const uint64_t frame_bytes = static_cast<uint64_t>(channels) * kBytesOfNumber;
  const uint64_t bytes_per_second = static_cast<uint64_t>(rate) * frame_bytes;
  const uint64_t sample_bytes = samples.size() * kBytesOfNumber;
  if (bytes_per_second > kLargest || sample_bytes > kLargest - kHeaderBytes) {
    return InvalidArgumentError(StrCat("Provided channels and frames cannot be encoded as a WAV: ", channels,
                                       " channels, sample_rate ", rate, ", ", sample_bytes, " bytes"));
  }
  std::string file;
  file.reserve(kHeaderBytes + sample_bytes);
  file.append("RIFF");
  Append(&file, kHeaderBytes - 8 + sample_bytes, 4);
  file.append("WAVEfmt ");
  Append(&file, 16, 4);
  Append(&file, 1, 2);
  Append(&file, static_cast<uint64_t>(channels), 2);
  Append(&file, static_cast<uint64_t>(rate), 4);
  Append(&file, bytes_per_second, 4);
  Append(&file, frame_bytes & 0xffff, 2);
  Append(&file, 8 * kBytesOfNumber, 2);
  file.append("data");
  Append(&file, sample_bytes, 4);
  for (const float sample : samples) Append(&file, static_cast<uint16_t>(Rounded(sample)), kBytesOfNumber);
  return file;
}

}  // namespace weir
