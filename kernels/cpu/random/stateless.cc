// The random ops that get their seed as an input: equal seeds give equal numbers in every step.
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// The output of the shape in input 0, filled from the stream of the seed in input 1.
template <typename T, typename Distribution, uint64_t blocks_per_group>
absl::Status FillOutput(KernelContext& context, const Distribution& distribution) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
  WEIR_ASSIGN_OR_RETURN(const Philox stream, StreamOfSeed(context.input(1)));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  Fill(context.threads(), stream, blocks_per_group, distribution, output->flat<T>());
  return absl::OkStatus();
}

template <typename T, typename Distribution, uint64_t blocks_per_group = 1>
class StatelessFill final : public Kernel {
 public:
  explicit StatelessFill(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    return FillOutput<T, Distribution, blocks_per_group>(context, Distribution());
  }
};

template <typename T>
class StatelessUniformInt final : public Kernel {
 public:
  explicit StatelessUniformInt(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    using Unsigned = std::make_unsigned_t<T>;
    for (int i : {2, 3}) {
      if (context.input(i).shape().is_scalar()) continue;
      return absl::InvalidArgumentError(absl::StrCat(i == 2 ? "minval" : "maxval", " must be a scalar, is ",
                                                     context.input(i).shape().ToString()));
    }
    const T low = context.input(2).scalar<T>(), high = context.input(3).scalar<T>();
    UniformInt<T> distribution = {static_cast<Unsigned>(low),
                                  static_cast<Unsigned>(high) - static_cast<Unsigned>(low)};
    if (low >= high) {
      WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
      if (shape.num_elements() > 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("minval must be less than maxval: ", low, " >= ", high));
      }
    }
    return FillOutput<T, UniformInt<T>, 1>(context, distribution);
  }
};

template <typename T>
using StatelessUniform = StatelessFill<T, Uniform<T>>;
template <typename T>
using StatelessNormal = StatelessFill<T, Normal<T>>;
template <typename T>
using StatelessTruncated = StatelessFill<T, TruncatedNormal<T>, TruncatedNormal<T>::kBlocksPerGroup>;
template <typename T>
using StatelessFullInt = StatelessFill<T, UniformFullInt<T>>;

}  // namespace

void RegisterStatelessKernels(DeviceKernels& kernels) {
  const auto floats = Types<float, double, Half, Bfloat16>("dtype");
  const DeviceKernels::TypeAttrs seeds = {{"Tseed", {DType::kInt32, DType::kInt64}}};
  kernels.Add<StatelessUniform>("StatelessRandomUniform", floats, seeds);
  kernels.Add<StatelessNormal>("StatelessRandomNormal", floats, seeds);
  kernels.Add<StatelessTruncated>("StatelessTruncatedNormal", floats, seeds);
  kernels.Add<StatelessUniformInt>("StatelessRandomUniformInt", Types<int32_t, int64_t>("dtype"), seeds);
  kernels.Add<StatelessFullInt>("StatelessRandomUniformFullInt",
                                Types<int32_t, int64_t, uint32_t, uint64_t>("dtype"), seeds);
}

}  // namespace weir
