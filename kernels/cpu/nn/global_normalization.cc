// BatchNormWithGlobalNormalization and its gradient: of images with channels last, with moments that are
// given. Old graphs have it, so it is written once, plainly.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Image t, input 0, and a vector for each input in [1, end).
absl::Status CheckInputs(const KernelContext& context, int end) {
  const Shape& t = context.input(0).shape();
  if (t.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("input must be 4-dimensional", t.ToString()));
  }
  for (int i = 1; i < end; ++i) {
    const Shape& vector = context.input(i).shape();
    if (vector.rank() == 1 && vector.dim(0) == t.dim(3)) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " must have one element for each channel of ",
                                                   t.ToString(), ", is ", vector.ToString()));
  }
  return absl::OkStatus();
}

template <typename T>
class GlobalNormalization : public Kernel {
 public:
  using Wide = ComputeType<T>;

  explicit GlobalNormalization(const KernelConstruction& construction)
      : epsilon_(static_cast<Wide>(construction.attr<float>("variance_epsilon"))),
        scales_(construction.attr<bool>("scale_after_normalization")) {}

 protected:
  // 1 / sqrt(v + epsilon) of each channel.
  std::vector<Wide> Inverses(const Tensor& variances) const {
    std::vector<Wide> inverses;
    for (const T v : variances.flat<T>()) {
      inverses.push_back(Wide(1) / std::sqrt(static_cast<Wide>(v) + epsilon_));
    }
    return inverses;
  }

  Wide Scale(const Tensor& gamma, int64_t channel) const {
    return scales_ ? static_cast<Wide>(gamma.flat<T>()[channel]) : Wide(1);
  }

  const Wide epsilon_;
  const bool scales_;
};

template <typename T>
class Normalize final : public GlobalNormalization<T> {
 public:
  using GlobalNormalization<T>::GlobalNormalization;
  using Wide = ComputeType<T>;

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckInputs(context, 5));
    const Tensor& t = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, t.shape()));
    const std::vector<Wide> inverses = this->Inverses(context.input(2));
    const auto channels = static_cast<int64_t>(inverses.size());
    std::vector<Wide> factors, means, offsets;
    for (int64_t c = 0; c < channels; ++c) {
      factors.push_back(inverses[c] * this->Scale(context.input(4), c));
      means.push_back(static_cast<Wide>(context.input(1).flat<T>()[c]));
      offsets.push_back(static_cast<Wide>(context.input(3).flat<T>()[c]));
    }
    const T* const from = t.flat<T>().data();
    T* const to = output->flat<T>().data();
    context.threads().ParallelFor(t.num_elements(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % channels;
        to[i] = static_cast<T>((static_cast<Wide>(from[i]) - means[c]) * factors[c] + offsets[c]);
      }
    });
    return absl::OkStatus();
  }
};

// With y = (t - m) * s * inverse + beta, where inverse = 1 / sqrt(v + epsilon) and s is gamma or 1.
template <typename T>
class NormalizeGradient final : public GlobalNormalization<T> {
 public:
  using GlobalNormalization<T>::GlobalNormalization;
  using Wide = ComputeType<T>;

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckInputs(context, 4));
    const Tensor &t = context.input(0), &gradient = context.input(4);
    if (gradient.shape() != t.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "backprop must have the shape of t, ", t.shape().ToString(), ", is ", gradient.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * dt, context.AllocateOutput(0, t.shape()));
    const std::vector<Wide> inverses = this->Inverses(context.input(2));
    const auto channels = static_cast<int64_t>(inverses.size());
    std::vector<double> sums(channels), products(channels);  // of dy, and of dy * (t - m)
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const int64_t c = i % channels;
      const auto dy = static_cast<Wide>(gradient.flat<T>()[i]);
      const Wide centered =
          static_cast<Wide>(t.flat<T>()[i]) - static_cast<Wide>(context.input(1).flat<T>()[c]);
      sums[c] += dy;
      products[c] += static_cast<double>(dy) * centered;
      dt->flat<T>()[i] = static_cast<T>(dy * this->Scale(context.input(3), c) * inverses[c]);
    }
    return SetSums(context, inverses, sums, products);
  }

 private:
  absl::Status SetSums(KernelContext& context, const std::vector<Wide>& inverses,
                       const std::vector<double>& sums, const std::vector<double>& products) {
    Tensor* of[5] = {};  // mean, variance, beta, gamma: outputs 1 to 4
    for (int i = 1; i < 5; ++i) {
      WEIR_ASSIGN_OR_RETURN(of[i], context.AllocateOutput(i, context.input(1).shape()));
    }
    for (size_t c = 0; c < sums.size(); ++c) {
      const double inverse = inverses[c];
      const double scale = this->Scale(context.input(3), static_cast<int64_t>(c));
      const auto set = [c, &of](int i, double value) {
        of[i]->flat<T>()[c] = static_cast<T>(static_cast<Wide>(value));
      };
      set(1, -sums[c] * scale * inverse);
      set(2, -0.5 * products[c] * scale * inverse * inverse * inverse);
      set(3, sums[c]);
      set(4, this->scales_ ? products[c] * inverse : 0);
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterGlobalNormalizationKernels(DeviceKernels& kernels) {
  const auto floats = Types<float, double, Half>("T");
  kernels.Add<Normalize>("BatchNormWithGlobalNormalization", floats);
  kernels.Add<NormalizeGradient>("BatchNormWithGlobalNormalizationGrad", floats);
}

}  // namespace weir
