// StatelessRandomBinomial: TensorFlow's numbers for the same seeds.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/per_parameter.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/cpu/random/sample_draws.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// The logarithm of k! without what Stirling's formula gives.
double StirlingRest(double k) {
  constexpr double kFirst[] = {
      0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650,  0.0166446911898211,
      0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return kFirst[static_cast<int>(std::max(k, 0.0))];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// How many of `count` trials succeed, each with `probability`. Of a probability above one half the failures
// are drawn.
//
// Few expected: how many geometrically distributed waits fit (L. Devroye, "Non-Uniform Random Variate
// Generation", 1986, X.4). Others: transformed rejection with a squeeze (W. Hoermann, "The generation of
// binomial random variates", 1993, algorithm BTRS).
class BinomialSampler {
 public:
  static constexpr double kCost = 60;  // nanoseconds

  // `T`: the dtype of counts and probabilities, in which the way to draw is chosen.
  template <typename T>
  BinomialSampler(T count, T probability)
      : count_(static_cast<double>(count)), probability_(static_cast<double>(probability)) {
    counts_failures_ = probability_ > 0.5;
    const T rarer = counts_failures_ ? T(T(1) - probability) : probability;
    rarer_ = static_cast<double>(rarer);
    is_rare_ = static_cast<double>(T(count * rarer)) < 10;
  }

  // TensorFlow's choices.
  uint64_t blocks_per_sample() const { return is_rare_ ? 42 : kReservedBlocksPerOutput; }

  template <typename T>
  T Sample(const Philox& bits) const {
    if (count_ <= 0 || probability_ <= 0) return NumberOf<T>(0);
    // Neither has a distribution, and would be drawn for without end.
    if (std::isnan(probability_)) return NumberOf<T>(probability_);
    if (probability_ >= 1 || !std::isfinite(count_)) return NumberOf<T>(count_);
    UniformDraws draws(bits);
    const double drawn = is_rare_ ? CountWaits(draws) : Reject(draws);
    return NumberOf<T>(counts_failures_ ? count_ - drawn : drawn);
  }

 private:
  double CountWaits(UniformDraws& draws) const {
    double trials = 0, successes = 0;
    while (true) {
      trials += std::ceil(std::log(draws.Next()) / std::log1p(-rarer_));
      if (!(trials <= count_)) return successes;
      successes += 1;
    }
  }

  double Reject(UniformDraws& draws) const {
    const double deviation = std::sqrt(count_ * rarer_ * (1 - rarer_));
    const double b = 1.15 + 2.53 * deviation;
    const double a = -0.0873 + 0.0248 * b + 0.01 * rarer_;
    const double c = count_ * rarer_ + 0.5;
    const double squeeze = 0.92 - 4.2 / b;
    const double odds = rarer_ / (1 - rarer_);
    const double alpha = (2.83 + 5.1 / b) * deviation;
    const double m = std::floor((count_ + 1) * rarer_);
    while (true) {
      const double u = draws.Next() - 0.5, v = draws.Next();
      const double room = 0.5 - std::abs(u);
      const double k = std::floor((2 * a / room + b) * u + c);
      if (room >= 0.07 && v <= squeeze) return k;
      if (k < 0 || k > count_) continue;
      const double s = std::log(v * alpha / (a / (room * room) + b));
      const double t = (m + 0.5) * std::log((m + 1) / (odds * (count_ - m + 1))) +
                       (count_ + 1) * std::log((count_ - m + 1) / (count_ - k + 1)) +
                       (k + 0.5) * std::log(odds * (count_ - k + 1) / (k + 1)) + StirlingRest(m) +
                       StirlingRest(count_ - m) - StirlingRest(k) - StirlingRest(count_ - k);
      if (s <= t) return k;
    }
  }

  double count_, probability_, rarer_;
  bool counts_failures_, is_rare_;
};

template <typename T>
std::vector<BinomialSampler> SamplersOf(const Tensor& counts, const Tensor& probabilities,
                                        const Shape& both) {
  const BroadcastLoops loops = MakeBroadcastLoops(both, {&counts.shape(), &probabilities.shape()});
  std::vector<BinomialSampler> samplers;
  samplers.reserve(both.num_elements());
  ForEachRow(loops, 2, 0, loops.num_rows(), [&](int64_t, const int64_t* offsets) {
    for (int64_t i = 0; i < loops.inner_size(); ++i) {
      samplers.emplace_back(counts.flat<T>()[offsets[0] + i * loops.strides[0].back()],
                            probabilities.flat<T>()[offsets[1] + i * loops.strides[1].back()]);
    }
  });
  return samplers;
}

// Sample i of parameters p is at [i, p] of the output, and begins blocks_per_sample() * (p * samples + i)
// blocks into the stream.
template <typename T>
absl::Status FillBinomial(const TimelyThreads& threads, const Philox& start,
                          const std::vector<BinomialSampler>& samplers, absl::Span<T> output) {
  const auto num_parameters = static_cast<int64_t>(samplers.size());
  const int64_t num_samples = static_cast<int64_t>(output.size()) / num_parameters;
  return ParallelForInTime(threads, output.size(), BinomialSampler::kCost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t which = i / num_samples, sample = i % num_samples;
      Philox bits = start;
      bits.Skip(static_cast<uint64_t>(i) * samplers[which].blocks_per_sample());
      output[sample * num_parameters + which] = samplers[which].template Sample<T>(bits);
    }
  });
}

// Inputs: shape, which ends with that of counts and probs together; seed; counts; probs.
template <typename P>
absl::Status StatelessBinomial(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
  WEIR_ASSIGN_OR_RETURN(const Philox stream, StreamOfSeed(context.input(1)));
  const Tensor &counts = context.input(2), &probabilities = context.input(3);
  const absl::StatusOr<Shape> both = BroadcastShapes({&counts.shape(), &probabilities.shape()});
  if (!both.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("counts and probs must have compatible batch dimensions: ", counts.shape().ToString(),
                     " vs. ", probabilities.shape().ToString()));
  }
  WEIR_RETURN_IF_ERROR(CheckEndsWith(shape, *both));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const std::vector<BinomialSampler> samplers = SamplersOf<P>(counts, probabilities, *both);
  absl::Status status;
  WithNumericType(output->dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, Half>) {
      status = FillBinomial(context, stream, samplers, output->flat<T>());
    }
  });
  return status;
}

template <typename P>
using StatelessBinomialKernel = FunctionKernel<StatelessBinomial<P>>;

}  // namespace

void RegisterBinomialKernels(DeviceKernels& kernels) {
  kernels.Add<StatelessBinomialKernel>("StatelessRandomBinomial", Types<float, double, Half>("T"));
}

}  // namespace weir
