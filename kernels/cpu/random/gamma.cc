// RandomGamma, StatelessRandomGammaV3. RandomGammaGrad is elementwise: kernels/cpu/math/binary_table.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/per_parameter.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Uniform and normal numbers of one stream, drawn two at a time; of each two the second is given first. That
// is the order in which TensorFlow takes them.
class Draws {
 public:
  explicit Draws(const Philox& bits) : bits_(bits) {}

  double Uniform() {
    return Take(uniform_, [](const Philox::Block& b) {
      return std::array<double, 2>{UniformDouble(b[0], b[1]), UniformDouble(b[2], b[3])};
    });
  }
  double Normal() {
    return Take(normal_, [](const Philox::Block& b) { return NormalDoubles(b[0], b[1], b[2], b[3]); });
  }

 private:
  struct Pair {
    std::array<double, 2> values;
    int left = 0;
  };
  template <typename Make>
  double Take(Pair& pair, const Make& make) {
    if (pair.left == 0) pair = {make(bits_.Next()), 2};
    return pair.values[--pair.left];
  }

  Philox bits_;
  Pair uniform_, normal_;
};

// Of the gamma distribution with rate 1: G. Marsaglia and W. Tsang, "A simple method for generating gamma
// variables", ACM TOMS 26 (2000). A cube of a normal number is taken or thrown away; fewer than one in 20 is.
class GammaSampler {
 public:
  explicit GammaSampler(double alpha)
      : alpha_(alpha),
        // For alpha < 1 the method draws for alpha + 1; a power of a uniform number corrects the result.
        d_(alpha < 1 ? alpha + 2.0 / 3 : alpha - 1.0 / 3),
        c_(1.0 / 3 / std::sqrt(d_)) {}

  template <typename T>
  T Sample(const Philox& bits) const {
    Draws draws(bits);
    return T((*this)(draws));
  }
  template <typename T>
  static constexpr double CostOf(double /*alpha*/) {
    return 60;
  }

 private:
  double operator()(Draws& draws) const {
    if (alpha_ == 1) return -std::log1p(-draws.Uniform());  // the exponential distribution
    // NaN and negative numbers have no distribution, and would be drawn for without end.
    if (!(alpha_ >= 0)) return std::numeric_limits<double>::quiet_NaN();
    if (std::isinf(alpha_)) return alpha_;
    while (true) {
      const double x = draws.Normal();
      const double root = 1 + c_ * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      const double u = draws.Uniform();
      const bool is_under_curve = u < 1 - 0.0331 * (x * x) * (x * x);  // most are, and need no logarithm
      if (!is_under_curve && std::log(u) >= 0.5 * x * x + d_ * (1 - v + std::log(v))) continue;
      return alpha_ < 1 ? d_ * v * std::pow(draws.Uniform(), 1 / alpha_) : d_ * v;
    }
  }

  const double alpha_, d_, c_;
};

template <typename T>
class RandomGamma final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<RandomGamma>(std::move(stream));
  }

  explicit RandomGamma(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape per_alpha, ShapeInput(context.input(0)));
    const Tensor& alphas = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, WithParameters(per_alpha, alphas.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return FillPerParameter<GammaSampler>(context, stream_->Reserve(shape.num_elements()), alphas.flat<T>(),
                                          output->flat<T>());
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

// Inputs: shape, which ends with alpha's; key, counter, algorithm; alpha.
template <typename T>
class StatelessGamma final : public Kernel {
 public:
  explicit StatelessGamma(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Philox stream,
                          StreamOfKey(context.input(1), context.input(2), context.input(3)));
    const Tensor& alphas = context.input(4);
    WEIR_RETURN_IF_ERROR(CheckEndsWith(shape, alphas.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    return FillPerParameter<GammaSampler>(context, stream, alphas.flat<T>(), output->flat<T>());
  }
};

}  // namespace

void RegisterGammaKernels(DeviceKernels& kernels) {
  kernels.Add<RandomGamma>("RandomGamma", Types<float, double, Half>("T"));
  kernels.Add<StatelessGamma>("StatelessRandomGammaV3", Types<float, double, Half>("dtype"));
}

}  // namespace weir
