// WAV files, by the bytes of their header. tests/fuzz/sounds_fuzz_test.cc has damaged ones.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;

Tensor Text(std::string contents) { return Strings({}, {std::move(contents)}); }

std::string Little(int64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> 8 * i & 0xff));
  return bytes;
}

// What a header says, right or wrong.
struct Header {
  int64_t format_size = 16, format = 1, channels = 2, rate = 8000, frame_bytes = 4, bits = 16;
  int64_t bytes_per_second = 32000;
  std::string before;  // chunks between the format and the samples

  std::string With(const std::string& samples, int64_t num_bytes) const {
    return "RIFF" + Little(36 + num_bytes, 4) + "WAVEfmt " + Little(format_size, 4) + Little(format, 2) +
           Little(channels, 2) + Little(rate, 4) + Little(bytes_per_second, 4) + Little(frame_bytes, 2) +
           Little(bits, 2) + std::string(format_size == 18 ? 2 : 0, '\0') + before + "data" +
           Little(num_bytes, 4) + samples;
  }
  std::string With(const std::string& samples) const {
    return With(samples, static_cast<int64_t>(samples.size()));
  }
};

// Of the files of this record, whose samples are the last bytes.
void Decode(Call& call) {
  const std::string& file = call.in(0)[0].text;
  const auto number = [&](size_t at, int num_bytes) {
    int64_t value = 0;
    for (int i = num_bytes - 1; i >= 0; --i) {
      value = value << 8 | static_cast<uint8_t>(file[at + static_cast<size_t>(i)]);
    }
    return value;
  };
  const size_t data = file.find("data") + 8;
  const int64_t channels = number(22, 2), frames = number(data - 4, 4) / (2 * channels);
  const int64_t wanted_channels = call.integer("desired_channels"), wanted = call.integer("desired_samples");
  call.outputs[0] = Generate(
      {wanted < 0 ? frames : wanted, wanted_channels < 0 ? channels : wanted_channels}, [&](const Index& at) {
        if (at[0] >= frames) return Value(0.0);
        const int64_t channel = std::min(at[1], channels - 1);
        const size_t place = data + static_cast<size_t>(at[0] * channels + channel) * 2;
        return Value(static_cast<int16_t>(number(place, 2)) / 32768.0);
      });
  call.outputs[1] = Array({}, Value(static_cast<double>(number(24, 4))));
}

void Encode(Call& call) {
  const int64_t channels = call.in(0).dim(1), rate = call.in(1)[0].integer();
  std::string samples;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const double scaled = std::round(call.in(0)[i].real() * 32768);
    samples += Little(static_cast<int64_t>(std::min(std::max(scaled, -32768.0), 32767.0)), 2);
  }
  Header header;
  header.channels = channels;
  header.rate = rate;
  header.frame_bytes = 2 * channels;
  header.bytes_per_second = 2 * channels * rate;
  Value file;
  file.text = header.With(samples);
  call.outputs[0] = Array({}, file);
}

void AddDecoding(Suite& suite) {
  const std::string samples("\x64\0\xff\x7f\0\x80\xff\xff\1\0\2\0", 12);
  OpRecord& decode = suite.Op("DecodeWav").Reference(Decode).ShapeDependsOnValues();
  Header longer, with_list, mono;
  longer.format_size = 18;
  with_list.before = std::string("LIST\4\0\0\0INFO", 12);
  mono.channels = 1;
  mono.frame_bytes = 2;
  mono.bytes_per_second = 16000;
  for (const Header& header : {Header(), longer, with_list, mono}) {
    for (const int64_t channels : {-1, 0, 1, 4}) {
      decode.Call({Text(header.With(samples))}, {{"desired_channels", channels}});
      decode.Call({Text(header.With(samples))},
                  {{"desired_channels", channels}, {"desired_samples", int64_t{5}}});
    }
    decode.Call({Text(header.With(""))})
        .Call({Text(header.With(samples))}, {{"desired_samples", int64_t{2}}});
  }
  const auto refuses = [&](auto change, const char* error) {
    Header header;
    change(header);
    decode.Hostile({Text(header.With(samples))}, error);
  };
  refuses([](Header& h) { h.format_size = 17; }, "Bad format chunk size for WAV: Expected 16 or 18");
  refuses([](Header& h) { h.format = 3; }, "Bad audio format for WAV: Expected 1 (PCM)");
  refuses([](Header& h) { h.channels = 0; }, "Bad number of channels for WAV: Expected at least 1");
  refuses([](Header& h) { h.bits = 8; }, "Can only read 16-bit WAV files, but received 8");
  refuses([](Header& h) { h.frame_bytes = 3; }, "Bad bytes per sample in WAV header: Expected 4 but got 3");
  refuses([](Header& h) { h.channels = 65535; }, "Expected 131070 but got 4");
  refuses([](Header& h) { h.bytes_per_second = 7; }, "Bad bytes per second in WAV header: Expected 32000");
  refuses([](Header& h) { h.before = "LIST\xff\xff\xff\xff"; }, "is too large: 4294967295 bytes");
  refuses([](Header& h) { h.before = std::string("LIST\xff\0\0\0", 8); }, "No data chunk found in WAV");
  refuses([](Header& h) { h.before = std::string("data\0\0\0\0", 8); }, "More than one data chunk");
  const std::string file = Header().With(samples);
  decode.Hostile({Text("")}, "Data too short when trying to read string")
      .Hostile({Text(file.substr(0, 30))}, "Data too short when trying to read string")
      .Hostile({Text(file.substr(0, 36))}, "No data chunk found in WAV")
      .Hostile({Text(Header().With(samples, 100))}, "Data too short when trying to read string")
      .Hostile({Text(Header().With(samples, int64_t{1} << 31))}, "is too large: 2147483648 bytes")
      .Hostile({Text("RIFF    WAVX")}, "Header mismatch: Expected WAVE but found WAVX")
      .Hostile({Words({file})}, "contents must be scalar")
      .Hostile({Text(file)}, "desired_channels must be >= -1, got -2", {{"desired_channels", int64_t{-2}}})
      .Hostile({Text(file)}, "desired_samples must be >= -1, got -3", {{"desired_samples", int64_t{-3}}})
      .OutOfMemory({Text(file)}, {{"desired_samples", int64_t{kHuge}}});
}

void AddEncoding(Suite& suite) {
  suite.Op("EncodeWav")
      .Reference(Encode)
      .Call({Sample(DType::kFloat32, {5, 2}, -1.5, 1.5), Int(8000)})
      .Call({Sample(DType::kFloat32, {3, 1}, -1, 1), Int(44100)})
      .Call({Make(DType::kFloat32, {4, 1}, {1.5 / 32768, 2.5 / 32768, -1.5 / 32768, -2.5 / 32768}), Int(1)})
      .Call({Empty({0, 1}), Int(1)})
      .Hostile({Floats({3}), Int(8000)}, "audio must be 2-dimensional")
      .Hostile({Floats({3, 1}), Ints({8000})}, "Input sample_rate should be a scalar tensor")
      .Hostile({Floats({3, 1}), Int(0)}, "sample_rate must be in (0, 2^32), got: 0")
      .Hostile({Floats({3, 1}), Int(-1)}, "sample_rate must be in (0, 2^32), got: -1")
      .Hostile({Empty({1, 0}), Int(1)}, "num_channels must be in (0, 2^16), got: 0")
      .Hostile({Empty({0, 65536}), Int(1)}, "num_channels must be in (0, 2^16), got: 65536")
      .Hostile({Empty({0, 3}), Int(kHuge)}, "cannot be encoded as a WAV");
}

}  // namespace

void AddSoundsRecords(Suite& suite) {
  AddDecoding(suite);
  AddEncoding(suite);
}

}  // namespace weir::conformance
