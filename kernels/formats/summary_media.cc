// Summaries of images, sounds and whole tensors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/interchange/proto/event.pb.h"
#include "graph/interchange/serialized_tensor.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/png.h"
#include "kernels/formats/summary.h"

namespace weir {
namespace {

absl::StatusOr<std::string> BytesOf(const tensorflow::Summary& summary, absl::string_view tag) {
  std::string bytes;
  if (summary.SerializeToString(&bytes)) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("summary '", tag, "' has ", summary.ByteSizeLong(), " bytes, more than a message holds"));
}

std::string NumberedTag(absl::string_view tag, absl::string_view kind, int64_t most, int64_t number) {
  if (most == 1) return absl::StrCat(tag, "/", kind);
  return absl::StrCat(tag, "/", kind, "/", number);
}

// The pixels of an image as bytes.
template <typename T>
std::vector<uint8_t> ScaledPixels(absl::Span<const T> image, int64_t channels,
                                  absl::Span<const uint8_t> bad_color) {
  constexpr float kZero = 1e-6f;
  const auto is_finite = [&](int64_t pixel) {
    for (int64_t c = 0; c < channels; ++c) {
      if (!std::isfinite(static_cast<float>(image[pixel * channels + c]))) return false;
    }
    return true;
  };
  const auto num_pixels = static_cast<int64_t>(image.size()) / channels;
  float least = std::numeric_limits<float>::infinity(), largest = -least;
  for (int64_t p = 0; p < num_pixels; ++p) {
    if (!is_finite(p)) continue;
    for (int64_t c = 0; c < channels; ++c) {
      const auto value = static_cast<float>(image[p * channels + c]);
      least = std::min(least, value);
      largest = std::max(largest, value);
    }
  }
  const bool is_signed = least < 0;
  const float extent = is_signed ? std::max(std::abs(least), std::abs(largest)) : largest;
  const float scale = extent < kZero ? 0.0f : (is_signed ? 127.0f : 255.0f) / extent;
  const float offset = is_signed ? 128.0f : 0.0f;
  std::vector<uint8_t> pixels(image.size());
  for (int64_t p = 0; p < num_pixels; ++p) {
    const bool is_good = is_finite(p);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = p * channels + c;
      const float byte = is_good ? static_cast<float>(image[i]) * scale + offset : bad_color[c];
      pixels[i] = static_cast<uint8_t>(std::clamp(byte, 0.0f, 255.0f));
    }
  }
  return pixels;
}

std::vector<uint8_t> PixelsOf(const Tensor& images, int64_t first, int64_t size, int64_t channels,
                              absl::Span<const uint8_t> bad_color) {
  switch (images.dtype()) {
    case DType::kUint8: {
      const auto pixels = images.flat<uint8_t>().subspan(first, size);
      return {pixels.begin(), pixels.end()};
    }
    case DType::kHalf:
      return ScaledPixels(images.flat<Half>().subspan(first, size), channels, bad_color);
    case DType::kFloat64:
      return ScaledPixels(images.flat<double>().subspan(first, size), channels, bad_color);
    default:
      return ScaledPixels(images.flat<float>().subspan(first, size), channels, bad_color);
  }
}

void AppendLittleEndian(uint32_t value, int num_bytes, std::string* file) {
  for (int i = 0; i < num_bytes; ++i) file->push_back(static_cast<char>(value >> 8 * i & 0xff));
}

// RIFF with a chunk of format and one of samples (Microsoft, "Multimedia Programming Interface and Data
// Specifications 1.0", 1991).
std::string WavFile(absl::Span<const float> samples, uint32_t rate, uint32_t channels) {
  constexpr uint32_t kFormatBytes = 16, kPcm = 1, kBits = 16;
  const auto num_bytes = static_cast<uint32_t>(samples.size() * 2);
  std::string file = "RIFF";
  AppendLittleEndian(4 + 8 + kFormatBytes + 8 + num_bytes, 4, &file);
  file += "WAVEfmt ";
  AppendLittleEndian(kFormatBytes, 4, &file);
  AppendLittleEndian(kPcm, 2, &file);
  AppendLittleEndian(channels, 2, &file);
  AppendLittleEndian(rate, 4, &file);
  AppendLittleEndian(rate * channels * kBits / 8, 4, &file);
  AppendLittleEndian(channels * kBits / 8, 2, &file);
  AppendLittleEndian(kBits, 2, &file);
  file += "data";
  AppendLittleEndian(num_bytes, 4, &file);
  for (const float sample : samples) {
    const float scaled =
        std::isnan(sample) ? 0 : std::clamp(std::round(sample * 32768.0f), -32768.0f, 32767.0f);
    AppendLittleEndian(static_cast<uint16_t>(static_cast<int16_t>(scaled)), 2, &file);
  }
  return file;
}

}  // namespace

absl::StatusOr<std::string> ImageSummary(absl::string_view tag, const Tensor& images, int64_t max_images,
                                         const Tensor& bad_color) {
  const Shape& shape = images.shape();
  const int64_t channels = shape.rank() == 4 ? shape.dim(3) : 0;
  if (channels != 1 && channels != 3 && channels != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("Tensor must be 4-D with last dim 1, 3, or 4, not ", shape.ToString()));
  }
  if (bad_color.dtype() != DType::kUint8 || bad_color.shape().rank() != 1 ||
      bad_color.num_elements() < channels) {
    return absl::InvalidArgumentError(absl::StrCat("bad_color must be a uint8 for each of ", channels,
                                                   " channels, is ", bad_color.ToString()));
  }
  const int64_t height = shape.dim(1), width = shape.dim(2), size = height * width * channels;
  tensorflow::Summary summary;
  for (int64_t i = 0; i < std::min(max_images, shape.dim(0)); ++i) {
    const std::vector<uint8_t> pixels = PixelsOf(images, i * size, size, channels, bad_color.flat<uint8_t>());
    WEIR_ASSIGN_OR_RETURN(std::string png, EncodePng(pixels, height, width, channels));
    auto* const value = summary.add_value();
    value->set_tag(NumberedTag(tag, "image", max_images, i));
    auto* const image = value->mutable_image();
    image->set_height(static_cast<int32_t>(height));
    image->set_width(static_cast<int32_t>(width));
    image->set_colorspace(static_cast<int32_t>(channels));
    image->set_encoded_image_string(std::move(png));
  }
  return BytesOf(summary, tag);
}

absl::StatusOr<std::string> AudioSummary(absl::string_view tag, const Tensor& clips, float sample_rate,
                                         int64_t max_outputs) {
  constexpr int64_t kMostChannels = 16'384;
  constexpr int64_t kMostSamples = int64_t{1} << 29;
  constexpr float kHighestRate = 1e8f;
  const Shape& shape = clips.shape();
  if (shape.rank() != 2 && shape.rank() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("Tensor must be 2-D or 3-D, not ", shape.ToString()));
  }
  const int64_t frames = shape.dim(1), channels = shape.rank() == 3 ? shape.dim(2) : 1;
  if (channels < 1 || channels > kMostChannels || frames > kMostSamples / channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("no WAV file holds ", frames, " frames of ", channels, " channels"));
  }
  if (!(sample_rate > 0) || sample_rate * static_cast<float>(channels) > kHighestRate) {
    return absl::InvalidArgumentError(absl::StrCat("sample_rate must be a rate in Hz, is ", sample_rate));
  }
  tensorflow::Summary summary;
  for (int64_t i = 0; i < std::min(max_outputs, shape.dim(0)); ++i) {
    const auto samples = clips.flat<float>().subspan(i * frames * channels, frames * channels);
    auto* const value = summary.add_value();
    value->set_tag(NumberedTag(tag, "audio", max_outputs, i));
    auto* const audio = value->mutable_audio();
    audio->set_sample_rate(sample_rate);
    audio->set_num_channels(channels);
    audio->set_length_frames(frames);
    audio->set_encoded_audio_string(WavFile(samples,
                                            static_cast<uint32_t>(std::max(1L, std::lround(sample_rate))),
                                            static_cast<uint32_t>(channels)));
    audio->set_content_type("audio/wav");
  }
  return BytesOf(summary, tag);
}

absl::StatusOr<std::string> TensorSummary(absl::string_view tag, const Tensor& tensor,
                                          const std::string& metadata) {
  tensorflow::Summary summary;
  auto* const value = summary.add_value();
  value->set_tag(std::string(tag));
  if (!value->mutable_metadata()->ParseFromString(metadata)) {
    return absl::InvalidArgumentError(
        absl::StrCat("summary '", tag, "': serialized_summary_metadata is no SummaryMetadata"));
  }
  WEIR_ASSIGN_OR_RETURN(const std::string serialized, SerializeTensor(tensor));
  if (!value->mutable_tensor()->ParseFromString(serialized)) {
    return absl::InternalError(absl::StrCat("summary '", tag, "': its tensor was not written as it is read"));
  }
  return BytesOf(summary, tag);
}

}  // namespace weir
