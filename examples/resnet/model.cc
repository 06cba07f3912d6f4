#include "examples/resnet/model.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/layers.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir::examples {
namespace {

constexpr int kStages = 3;
constexpr int64_t kFirstFilters = 16;
constexpr int64_t kClasses = 10;

class Builder {
 public:
  Builder(GraphBuilder& g, const ResNetOptions& options) : g_(g), options_(options) {}

  // A convolution and its normalization, without activation.
  Output Convolution(Output x, int64_t filters, int64_t window, int64_t stride) {
    if (!x) return {};
    const auto scope = g_.NameScope("conv");
    const Shape shape({window, window, x.shape().dim(3), filters});
    const ModelVariable kernel = MakeVariable(g_, "kernel", DType::kFloat32, shape, initializers::HeNormal());
    const Output y = Conv2D(g_, x, ComputeDType(kernel.value), {1, stride, stride, 1}, "SAME");
    return layers::BatchNormalization(g_, y, options_.is_training, {.momentum = 0.9});
  }

  // The shortcut is the input itself, or a 1x1 convolution where the block halves the resolution.
  Output Block(Output x, int64_t filters, int64_t stride) {
    const auto scope = g_.NameScope("block");
    const Output shortcut = stride == 1 ? x : Convolution(x, filters, 1, stride);
    const Output hidden = Relu(g_, Convolution(x, filters, 3, stride));
    return Relu(g_, AddV2(g_, Convolution(hidden, filters, 3, 1), shortcut));
  }

  Output ComputeDType(Output x) {
    return options_.compute_dtype == DType::kFloat32 ? x : Cast(g_, x, options_.compute_dtype);
  }

 private:
  GraphBuilder& g_;
  const ResNetOptions& options_;
};

}  // namespace

Output ResNet(GraphBuilder& g, Output images, const ResNetOptions& options) {
  if (options.depth < 8 || options.depth % 6 != 2) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
        "the depth of a residual network must be 6 n + 2 for n of 1 or more, is ", options.depth)));
    return {};
  }
  Builder build(g, options);
  Output x = Relu(g, build.Convolution(build.ComputeDType(images), kFirstFilters, 3, 1));
  for (int stage = 0; stage < kStages; ++stage) {
    for (int block = 0; block < (options.depth - 2) / (2 * kStages); ++block) {
      x = build.Block(x, kFirstFilters << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  x = ReduceMean(g, x, {1, 2});
  if (x && x.dtype() != DType::kFloat32) x = Cast(g, x, DType::kFloat32);
  return layers::Dense(g, x, kClasses, nullptr, {.kernel_initializer = initializers::TruncatedNormal(0.1)});
}

}  // namespace weir::examples
