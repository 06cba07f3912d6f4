// AudioSpectrogram and Mfcc: what speech recognisers hear with.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/fourier_plan.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr double kPi = 3.14159265358979323846;

// ---- AudioSpectrogram ----

// Squares of the magnitudes of windows' transforms, or their roots. A window is weighted with a periodic Hann
// window, and filled up with zeros to a power of two.
class AudioSpectrogram final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto window = construction.attr<int64_t>("window_size");
    const auto stride = construction.attr<int64_t>("stride");
    if (window < 2 || window > std::numeric_limits<int32_t>::max() || stride < 1) {
      return InvalidArgumentError(
          StrCat("Spectrogram initialization failed for window size ", window, " and stride ", stride));
    }
    return std::make_unique<AudioSpectrogram>(construction);
  }
  explicit AudioSpectrogram(const KernelConstruction& construction)
      : window_(construction.attr<int64_t>("window_size")),
        stride_(construction.attr<int64_t>("stride")),
        is_squared_(construction.attr<bool>("magnitude_squared")) {
    while (length_ < window_) length_ *= 2;
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (input.shape().rank() != 2)
      return InvalidArgumentError(StrCat("input must be 2-dimensional", input.shape().ToString()));
    const int64_t samples = input.shape().dim(0), channels = input.shape().dim(1);
    const int64_t slices = samples < window_ ? 0 : 1 + (samples - window_) / stride_;
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({channels, slices, 1 + length_ / 2}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const FourierPlan<double> plan,
                          FourierPlan<double>::Create(context, length_, FourierSign::kForward));
    WEIR_ASSIGN_OR_RETURN(Tensor weights, context.AllocateTemporary(DType::kFloat64, Shape({window_})));
    for (int64_t i = 0; i < window_; ++i) {
      weights.flat<double>()[i] =
          0.5 - 0.5 * std::cos(2 * kPi * static_cast<double>(i) / static_cast<double>(window_));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor room,
                          context.AllocateTemporary(DType::kComplex128, Shape({length_ + plan.room()})));
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t slice = 0; slice < slices; ++slice) {
        if (context.cancellation().is_cancelled()) return context.cancellation().reason();
        const float* const from = input.flat<float>().data() + slice * stride_ * channels + c;
        float* const to = output->flat<float>().data() + (c * slices + slice) * (1 + length_ / 2);
        Transform(plan, from, channels, weights.flat<double>().data(),
                  room.flat<std::complex<double>>().data(), to, context.cancellation());
      }
    }
    return absl::OkStatus();
  }

 private:
  void Transform(const FourierPlan<double>& plan, const float* from, int64_t step, const double* weights,
                 std::complex<double>* room, float* to, const Cancellation& cancellation) const {
    for (int64_t i = 0; i < window_; ++i) room[i] = weights[i] * static_cast<double>(from[i * step]);
    std::fill(room + window_, room + length_, 0);
    plan.Run(room, 1, room + length_, cancellation);
    for (int64_t k = 0; k <= length_ / 2; ++k) {
      const auto power = static_cast<float>(std::norm(room[k]));
      to[k] = is_squared_ ? power : std::sqrt(power);
    }
  }

  const int64_t window_, stride_;
  const bool is_squared_;
  int64_t length_ = 1;
};

// ---- Mfcc ----

// Of frequencies in hertz: the mel scale of O'Shaughnessy, "Speech Communication" (1987), in natural
// logarithms.
double Mel(double frequency) { return 1127.0 * std::log1p(frequency / 700.0); }

// Triangles of equal width on the mel scale, each of which begins at the top of the one before it. A bin of a
// spectrum lies on the falling side of one and on the rising side of the next. Bin 0 belongs to none.
struct Bands {
  int64_t count = 0;
  double low = 0, width = 0;  // in mel
  double hertz_per_bin = 0;
  int64_t begin = 0, end = 0;  // of the bins that belong to bands

  double Top(int64_t band) const { return low + width * static_cast<double>(band + 1); }

  // Adds the bins of one spectrum to `sums`, one for each band.
  void Sum(const float* spectrum, double* sums) const {
    std::fill(sums, sums + count, 0.0);
    int64_t next = 0;  // the first band whose top is not below the bin
    for (int64_t i = begin; i < end; ++i) {
      const double mel = Mel(static_cast<double>(i) * hertz_per_bin);
      while (next < count && Top(next) < mel) ++next;
      const double top_before = next == 0 ? low : Top(next - 1);
      const double value = std::sqrt(static_cast<double>(spectrum[i]));
      const double falling = value * (Top(next) - mel) / (Top(next) - top_before);
      if (next > 0) sums[next - 1] += falling;
      if (next < count) sums[next] += value - falling;
    }
  }
};

class Mfcc final : public Kernel {
 public:
  explicit Mfcc(const KernelConstruction& construction)
      : high_(construction.attr<float>("upper_frequency_limit")),
        low_(construction.attr<float>("lower_frequency_limit")),
        num_bands_(construction.attr<int64_t>("filterbank_channel_count")),
        num_coefficients_(construction.attr<int64_t>("dct_coefficient_count")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (input.shape().rank() != 3)
      return InvalidArgumentError(StrCat("spectrogram must be 3-dimensional", input.shape().ToString()));
    if (context.input(1).shape().rank() != 0) {
      return InvalidArgumentError(StrCat("Input sample_rate should be a scalar tensor, got ",
                                         context.input(1).shape().ToString(), " instead."));
    }
    const int64_t bins = input.shape().dim(2);
    WEIR_ASSIGN_OR_RETURN(const Bands bands, BandsOf(bins, IntegerAt(context.input(1), 0)));
    const int64_t count = input.shape().dim(0) * input.shape().dim(1);
    WEIR_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::FromDims({input.shape().dim(0), input.shape().dim(1), num_coefficients_}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (count == 0) return absl::OkStatus();
    if (bands.end > bins) {  // as TensorFlow has it: the spectrum ends below the upper limit
      std::fill_n(output->flat<float>().begin(), output->num_elements(), 0.0f);
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor cosines, Cosines(context));
    WEIR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(DType::kFloat64, Shape({num_bands_})));
    for (int64_t i = 0; i < count; ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      double* const logarithms = sums.flat<double>().data();
      bands.Sum(input.flat<float>().data() + i * bins, logarithms);
      constexpr double kFloor = 1e-12;
      for (int64_t j = 0; j < num_bands_; ++j)
        logarithms[j] = std::log(logarithms[j] < kFloor ? kFloor : logarithms[j]);
      Transform(logarithms, cosines.flat<double>().data(),
                output->flat<float>().data() + i * num_coefficients_);
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Bands> BandsOf(int64_t bins, int64_t rate) const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const bool has_counts =
        num_bands_ >= 1 && num_bands_ < kMost && num_coefficients_ >= 1 && num_coefficients_ <= num_bands_;
    const bool has_limits = low_ >= 0 && high_ > low_ && std::isfinite(high_);
    if (!has_counts || !has_limits || rate <= 0 || bins < 2) {
      return InvalidArgumentError(StrCat("Mfcc initialization failed for channel count ", bins,
                                         ", sample rate ", rate, " and filterbank_channel_count ", num_bands_,
                                         ", dct_coefficient_count ", num_coefficients_, ", frequencies from ",
                                         low_, " to ", high_));
    }
    Bands bands;
    bands.count = num_bands_;
    bands.low = Mel(low_);
    bands.width = (Mel(high_) - bands.low) / static_cast<double>(num_bands_ + 1);
    bands.hertz_per_bin = 0.5 * static_cast<double>(rate) / static_cast<double>(bins - 1);
    // Beyond any spectrum's end there is nothing to tell apart.
    const auto bin_at = [&](double place) {
      return static_cast<int64_t>(std::min(place, static_cast<double>(bins)));
    };
    bands.begin = bin_at(1.5 + low_ / bands.hertz_per_bin);
    bands.end = bin_at(high_ / bands.hertz_per_bin) + 1;
    return bands;
  }

  absl::StatusOr<Tensor> Cosines(KernelContext& context) const {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({num_coefficients_, num_bands_}));
    WEIR_ASSIGN_OR_RETURN(Tensor cosines, context.AllocateTemporary(DType::kFloat64, shape));
    const auto count = static_cast<double>(num_bands_);
    double* to = cosines.flat<double>().data();
    for (int64_t i = 0; i < num_coefficients_; ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      for (int64_t j = 0; j < num_bands_; ++j) {
        *to++ = std::sqrt(2 / count) *
                std::cos(static_cast<double>(i) * kPi / count * (static_cast<double>(j) + 0.5));
      }
    }
    return cosines;
  }

  void Transform(const double* from, const double* cosines, float* to) const {
    for (int64_t i = 0; i < num_coefficients_; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < num_bands_; ++j) sum += cosines[i * num_bands_ + j] * from[j];
      to[i] = static_cast<float>(sum);
    }
  }

  const double high_, low_;
  const int64_t num_bands_, num_coefficients_;
};

}  // namespace

void RegisterAudioKernels(DeviceKernels& kernels) {
  kernels.Add<AudioSpectrogram>("AudioSpectrogram");
  kernels.Add<Mfcc>("Mfcc");
}

}  // namespace weir
