// RandomPoisson, RandomPoissonV2, StatelessRandomPoisson: TensorFlow's numbers for the same seeds.
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/per_parameter.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/cpu/random/sample_draws.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T>
double LargestOf() {
  if constexpr (std::is_integral_v<T>) return static_cast<double>(std::numeric_limits<T>::max());
  if constexpr (std::is_same_v<T, Half>) return 65504.0;
  return static_cast<double>(
      std::numeric_limits<std::conditional_t<std::is_floating_point_v<T>, T, float>>::max());
}

// Small rates: how many uniform numbers until their product is below e^-rate (D. Knuth, The Art of Computer
// Programming, vol. 2, 3.4.1). Others: transformed rejection with a squeeze (W. Hörmann, "The transformed
// rejection method for generating Poisson random variables", 1993, algorithm PTRS).
class PoissonSampler {
 public:
  explicit PoissonSampler(double rate)
      : rate_(rate),
        limit_(std::exp(-rate)),
        log_rate_(std::log(rate)),
        b_(0.931 + 2.53 * std::sqrt(rate)),
        a_(-0.059 + 0.02483 * b_),
        inverse_alpha_(1.1239 + 1.1328 / (b_ - 3.4)) {}
  // Nanoseconds. Of rates far beyond the largest number all draws are thrown away.
  template <typename T>
  static double CostOf(double rate) {
    constexpr double kCost = 40;
    return rate > LargestOf<T>() && !std::isinf(rate) ? kMostOverflows * kCost : kCost;
  }

  template <typename T>
  T Sample(const Philox& bits) const {
    UniformDraws draws(bits);
    // NaN has no distribution, and would be drawn for without end.
    if (std::isnan(rate_) || std::isinf(rate_)) return NumberOf<T>(rate_);
    return NumberOf<T>(rate_ < 10 ? Count(draws, LargestOf<T>()) : Reject(draws, LargestOf<T>()));
  }

 private:
  static constexpr int kMostOverflows = 10'000;

  double Count(UniformDraws& draws, double largest) const {
    double product = 1, count = 0;
    while (true) {
      product *= draws.Next();
      if (product <= limit_ && count <= largest) return count;
      count += 1;
    }
  }

  // Rates far beyond `largest` have hardly a sample that fits: those are cut off there, where TensorFlow
  // would draw without end.
  double Reject(UniformDraws& draws, double largest) const {
    for (int overflows = 0; overflows < kMostOverflows;) {
      const double u = draws.Next() - 0.5, v = draws.Next();
      const double room = 0.5 - std::abs(u);
      const double k = std::floor((2 * a_ / room + b_) * u + rate_ + 0.43);
      if (k > largest) {
        ++overflows;
        continue;
      }
      if (room >= 0.07 && v <= 0.9277 - 3.6224 / (b_ - 2)) return k;
      if (k < 0 || (room < 0.013 && v > room)) continue;
      const double s = std::log(v * inverse_alpha_ / (a_ / (room * room) + b_));
      const double t = -rate_ + k * log_rate_ - std::lgamma(k + 1);
      if (s <= t) return k;
    }
    return largest;
  }

  const double rate_, limit_, log_rate_, b_, a_, inverse_alpha_;
};

// Any rate, any result.
absl::Status FillPoisson(KernelContext& context, const Philox& start, const Tensor& rates, Tensor& output) {
  absl::Status status;
  WithNumericType(rates.dtype(), [&](auto rate_tag) {
    using R = typename decltype(rate_tag)::Type;
    if constexpr (std::is_convertible_v<R, double>) {
      WithNumericType(output.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, Half>) {
          status = FillPerParameter<PoissonSampler>(context, start, rates.flat<R>(), output.flat<T>());
        }
      });
    }
  });
  return status;
}

class RandomPoisson final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<RandomPoisson>(std::move(stream));
  }

  explicit RandomPoisson(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape per_rate, ShapeInput(context.input(0)));
    const Tensor& rates = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, WithParameters(per_rate, rates.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return FillPoisson(context, stream_->Reserve(shape.num_elements()), rates, *output);
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

// Inputs: shape, which ends with lam's; seed; lam.
absl::Status ComputeStatelessPoisson(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
  WEIR_ASSIGN_OR_RETURN(const Philox stream, StreamOfSeed(context.input(1)));
  const Tensor& rates = context.input(2);
  WEIR_RETURN_IF_ERROR(CheckEndsWith(shape, rates.shape()));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  return FillPoisson(context, stream, rates, *output);
}

}  // namespace

void RegisterPoissonKernels(DeviceKernels& kernels) {
  const std::vector<DType> numbers = {DType::kHalf, DType::kFloat32, DType::kFloat64, DType::kInt32,
                                      DType::kInt64};
  kernels.Add<RandomPoisson>("RandomPoisson", {{"dtype", {DType::kHalf, DType::kFloat32, DType::kFloat64}}});
  kernels.Add<RandomPoisson>("RandomPoissonV2", {{"R", numbers}, {"dtype", numbers}});
  kernels.Add<&ComputeStatelessPoisson>("StatelessRandomPoisson", {{"Rtype", numbers}, {"dtype", numbers}});
}

}  // namespace weir
