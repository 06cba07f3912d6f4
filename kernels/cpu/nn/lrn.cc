// LRN and LRNGrad: Krizhevsky, Sutskever, Hinton, ImageNet Classification with Deep Convolutional Neural
// Networks (2012), section 3.3.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kPowerCost = 20;  // nanoseconds of a power on one core
constexpr double kTermCost = 1;    // of an element of a window

// A pixel's channels c are divided by norm[c]^beta, where
//   norm[c] = bias + alpha * the sum of x[k]^2 over the channels k with |k - c| <= radius.
class Normalization {
 public:
  explicit Normalization(const KernelConstruction& construction)
      : radius_(construction.attr<int64_t>("depth_radius")),
        bias_(construction.attr<float>("bias")),
        alpha_(construction.attr<float>("alpha")),
        beta_(construction.attr<float>("beta")) {}

  static absl::Status Check(absl::string_view name, const Tensor& tensor) {
    if (tensor.shape().rank() == 4) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must have 4 dimensions, is ", tensor.shape().ToString()));
  }

  double CostOfPixel(int64_t depth) const { return static_cast<double>(depth) * CostOfChannel(depth); }

  void Forward(const TimelyThreads& threads, int64_t depth, const float* x, float* y) const {
    ForEachChannel(threads, depth, [&](int64_t c) { y[c] = x[c] * std::pow(Norm(depth, x, c), -beta_); });
  }

  void Backward(const TimelyThreads& threads, int64_t depth, const float* dy, const float* x, const float* y,
                float* dx) const {
    std::fill_n(dx, depth, 0.0f);
    ForEachChannel(threads, depth, [&](int64_t c) {
      const float norm = Norm(depth, x, c);
      const float shared = -2 * alpha_ * beta_ * y[c] / norm * dy[c];
      for (int64_t k = Begin(c); k < End(c, depth); ++k) dx[k] += shared * x[k];
      dx[c] += std::pow(norm, -beta_) * dy[c];
    });
  }

 private:
  double CostOfChannel(int64_t depth) const {
    const double window = std::min(2.0 * static_cast<double>(radius_) + 1, static_cast<double>(depth));
    return kPowerCost + kTermCost * window;
  }
  // One pixel of very many channels may take hours.
  template <typename Body>
  void ForEachChannel(const TimelyThreads& threads, int64_t depth, const Body& body) const {
    const int64_t piece = ItemsBetweenLooks(CostOfChannel(depth));
    for (int64_t begin = 0; begin < depth; begin += std::min(piece, depth - begin)) {
      if (threads.is_over()) return;
      for (int64_t c = begin; c < depth && c - begin < piece; ++c) body(c);
    }
  }
  int64_t Begin(int64_t c) const { return radius_ >= c ? 0 : c - std::max<int64_t>(radius_, 0); }
  int64_t End(int64_t c, int64_t depth) const {
    return radius_ >= depth - c ? depth : c + std::max<int64_t>(radius_, 0) + 1;
  }
  float Norm(int64_t depth, const float* x, int64_t c) const {
    float sum = 0;
    for (int64_t k = Begin(c); k < End(c, depth); ++k) sum += x[k] * x[k];
    return bias_ + alpha_ * sum;
  }

  const int64_t radius_;
  const float bias_, alpha_, beta_;
};

template <typename T>
class LocalResponseNormalization final : public Kernel {
 public:
  explicit LocalResponseNormalization(const KernelConstruction& construction)
      : normalization_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_RETURN_IF_ERROR(Normalization::Check("input", input));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    if (input.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, input));
    WEIR_ASSIGN_OR_RETURN(Tensor y, WideOutput(context, *output));
    const int64_t depth = input.shape().dim(3);
    const float* from = x.flat<float>().data();
    float* to = y.flat<float>().data();
    WEIR_RETURN_IF_ERROR(ParallelForInTime(context, input.num_elements() / depth,
                                           normalization_.CostOfPixel(depth),
                                           [&](int64_t begin, int64_t end) {
                                             for (int64_t i = begin * depth; i < end * depth; i += depth) {
                                               normalization_.Forward(context, depth, from + i, to + i);
                                             }
                                           }));
    Narrow(context, y, output);
    return absl::OkStatus();
  }

 private:
  const Normalization normalization_;
};

template <typename T>
class LocalResponseNormalizationGrad final : public Kernel {
 public:
  explicit LocalResponseNormalizationGrad(const KernelConstruction& construction)
      : normalization_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(1);
    WEIR_RETURN_IF_ERROR(Normalization::Check("input_image", image));
    for (int i : {0, 2}) {
      if (context.input(i).shape() == image.shape()) continue;
      return absl::InvalidArgumentError(absl::StrCat(i == 0 ? "input_grads" : "output_image", " is ",
                                                     context.input(i).shape().ToString(),
                                                     " but input_image is ", image.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, image.shape()));
    if (image.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Tensor dy, Widen(context, context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, image));
    WEIR_ASSIGN_OR_RETURN(const Tensor y, Widen(context, context.input(2)));
    WEIR_ASSIGN_OR_RETURN(Tensor dx, WideOutput(context, *output));
    const int64_t depth = image.shape().dim(3);
    const auto at = [](const Tensor& tensor, int64_t i) { return tensor.flat<float>().data() + i; };
    float* to = dx.flat<float>().data();
    WEIR_RETURN_IF_ERROR(
        ParallelForInTime(context, image.num_elements() / depth, 2 * normalization_.CostOfPixel(depth),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin * depth; i < end * depth; i += depth) {
                              normalization_.Backward(context, depth, at(dy, i), at(x, i), at(y, i), to + i);
                            }
                          }));
    Narrow(context, dx, output);
    return absl::OkStatus();
  }

 private:
  const Normalization normalization_;
};

}  // namespace

void RegisterLrnKernels(DeviceKernels& kernels) {
  const auto types = Types<float, Half, Bfloat16>("T");
  kernels.Add<LocalResponseNormalization>("LRN", types);
  kernels.Add<LocalResponseNormalizationGrad>("LRNGrad", types);
}

}  // namespace weir
