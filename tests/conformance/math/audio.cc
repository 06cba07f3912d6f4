// Spectrograms of sound and cepstra of these, by their definitions.
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using reference::Call;

void Spectrogram(Call& call) {
  const int64_t window = call.integer("window_size"), stride = call.integer("stride");
  const int64_t samples = call.in(0).dim(0);
  int64_t length = 1;
  while (length < window) length *= 2;
  const int64_t slices = samples < window ? 0 : (samples - window) / stride + 1;
  call.outputs[0] = Generate({call.in(0).dim(1), slices, length / 2 + 1}, [&](const Index& at) {
    std::complex<double> sum = 0;
    for (int64_t i = 0; i < window; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(window);
      const double turns = static_cast<double>(i * at[2]) / static_cast<double>(length);
      sum += call.in(0).at({at[1] * stride + i, at[0]}).real() * std::pow(std::sin(M_PI * part), 2) *
             std::polar(1.0, -2 * M_PI * turns);
    }
    return Value(call.flag("magnitude_squared") ? std::norm(sum) : std::abs(sum));
  });
}

double Mel(double frequency) { return 1127 * std::log(1 + frequency / 700); }

// How much of the bin at `mel` belongs to the triangle around `top`.
double Share(double mel, double top, double width) { return std::max(0.0, 1 - std::abs(mel - top) / width); }

void Cepstrum(Call& call) {
  const int64_t bins = call.in(0).dim(2), bands = call.integer("filterbank_channel_count");
  const double low = call.node.attr<float>("lower_frequency_limit");
  const double high = call.node.attr<float>("upper_frequency_limit");
  const double hertz = 0.5 * call.in(1)[0].real() / static_cast<double>(bins - 1);
  const auto first = static_cast<int64_t>(1.5 + low / hertz), last = static_cast<int64_t>(high / hertz);
  const double width = (Mel(high) - Mel(low)) / static_cast<double>(bands + 1);
  const Index dims = {call.in(0).dim(0), call.in(0).dim(1), call.integer("dct_coefficient_count")};
  call.outputs[0] = Generate(dims, [&](const Index& at) {
    double result = 0;
    for (int64_t band = 0; last < bins && band < bands; ++band) {
      double sum = 0;
      for (int64_t i = first; i <= last; ++i) {
        const double share = Share(Mel(static_cast<double>(i) * hertz),
                                   Mel(low) + width * static_cast<double>(band + 1), width);
        sum += share * std::sqrt(call.in(0).at({at[0], at[1], i}).real());
      }
      const double angle =
          static_cast<double>(at[2]) * M_PI / static_cast<double>(bands) * (static_cast<double>(band) + 0.5);
      result +=
          std::sqrt(2.0 / static_cast<double>(bands)) * std::cos(angle) * std::log(std::max(sum, 1e-12));
    }
    return Value(result);
  });
}

AttrMap Windows(int64_t size, int64_t stride, bool is_squared = false) {
  return {{"window_size", size}, {"stride", stride}, {"magnitude_squared", is_squared}};
}

void AddSpectrograms(Suite& suite) {
  OpRecord& op = suite.Op("AudioSpectrogram").Reference(Spectrogram).Tolerance(2e-6);
  for (const bool is_squared : {false, true}) {
    op.Call({Floats({10, 1})}, Windows(4, 2, is_squared))
        .Call({Floats({33, 3})}, Windows(7, 3, is_squared))
        .Call({Floats({20, 2})}, Windows(2, 9, is_squared));
  }
  op.Call({Floats({3, 1})}, Windows(4, 1))
      .Call({Empty({0, 2})}, Windows(3, 1))
      .Call({Empty({6, 0})}, Windows(3, 1));
  for (const auto& [size, stride] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {0, 1}, {-4, 1}, {4, 0}, {4, -1}, {kLongest, 1}, {kShortest, 1}}) {
    op.Hostile({Floats({10, 1})}, "Spectrogram initialization failed for window size", Windows(size, stride));
  }
  op.Hostile({Floats({10})}, "input must be 2-dimensional", Windows(4, 2));
  op.OutOfMemory({Floats({70'000, 1})}, Windows(65'536, 1));
}

void AddCepstra(Suite& suite) {
  OpRecord& op = suite.Op("Mfcc").Reference(Cepstrum).Tolerance(1e-5);
  const Tensor spectra = Sample(D::kFloat32, {2, 3, 33}, 0, 4), one = Sample(D::kFloat32, {1, 1, 9}, 0, 4);
  const auto bands = [](int64_t count, int64_t coefficients, float low, float high) -> AttrMap {
    return {{"filterbank_channel_count", count},
            {"dct_coefficient_count", coefficients},
            {"lower_frequency_limit", low},
            {"upper_frequency_limit", high}};
  };
  op.Call({spectra, Int(8000)})
      .Call({spectra, Int(16000)})
      .Call({spectra, Int(2000)})  // ends below the upper limit
      .Call({spectra, Int(8000)}, bands(5, 3, 300, 2000))
      .Call({spectra, Int(8000)}, bands(1, 1, 0, 3000))
      .Call({one, Int(8000)}, bands(20, 20, 20, 4000))
      .Call({Empty({2, 0, 9}), Int(8000)})
      .Hostile({Floats({2, 3}), Int(8000)}, "spectrogram must be 3-dimensional")
      .Hostile({spectra, Ints({8000})}, "Input sample_rate should be a scalar tensor")
      .Hostile({spectra, Int(0)}, "Mfcc initialization failed for channel count 33, sample rate 0")
      .Hostile({Floats({1, 1, 1}), Int(8000)}, "Mfcc initialization failed for channel count 1,")
      .Hostile({spectra, Int(8000)}, "Mfcc initialization failed", bands(5, 6, 20, 4000))
      .Hostile({spectra, Int(8000)}, "Mfcc initialization failed", bands(0, 1, 20, 4000))
      .Hostile({spectra, Int(8000)}, "Mfcc initialization failed", bands(kLongest, 1, 20, 4000))
      .Hostile({spectra, Int(8000)}, "Mfcc initialization failed", bands(5, 3, -1, 4000))
      .Hostile({spectra, Int(8000)}, "Mfcc initialization failed", bands(5, 3, 4000, 4000))
      .Hostile({spectra, Int(8000)}, "Mfcc initialization failed",
               bands(5, 3, std::numeric_limits<float>::quiet_NaN(), 4000))
      .Hostile({spectra, Int(8000)}, "Mfcc initialization failed",
               bands(5, 3, 20, std::numeric_limits<float>::infinity()))
      .OutOfMemory({Sample(D::kFloat32, {1, 1, 9}, 0, 4), Int(8000)}, bands(1 << 14, 1 << 13, 20, 4000));
}

}  // namespace

void AddAudioRecords(Suite& suite) {
  AddSpectrograms(suite);
  AddCepstra(suite);
}

}  // namespace weir::conformance
