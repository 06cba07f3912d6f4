// RandomUniform, RandomStandardNormal, TruncatedNormal, RandomUniformInt.
//
// Every run moves the node's stream on by kReservedBlocksPerOutput blocks per output (distributions.h), as
// TensorFlow's does.
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T, typename Distribution, uint64_t blocks_per_group>
class RandomFill final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<RandomFill>(std::move(stream));
  }

  explicit RandomFill(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const Philox start = stream_->Reserve(shape.num_elements());
    Fill(context.threads(), start, blocks_per_group, Distribution(), output->flat<T>());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

template <typename T>
class RandomUniformInt final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<RandomUniformInt>(std::move(stream));
  }

  explicit RandomUniformInt(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
    for (int i : {1, 2}) {
      if (context.input(i).num_elements() == 1) continue;
      return absl::InvalidArgumentError(absl::StrCat(i == 1 ? "minval" : "maxval", " must be a scalar, is ",
                                                     context.input(i).shape().ToString()));
    }
    const T low = context.input(1).scalar<T>();
    const T high = context.input(2).scalar<T>();
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    if (low >= high) {
      return absl::InvalidArgumentError(absl::StrCat("minval must be less than maxval: ", low, " >= ", high));
    }
    using Unsigned = std::make_unsigned_t<T>;
    const UniformInt<T> distribution = {static_cast<Unsigned>(low),
                                        static_cast<Unsigned>(high) - static_cast<Unsigned>(low)};
    Fill(context.threads(), stream_->Reserve(shape.num_elements()), 1, distribution, output->flat<T>());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

template <typename T>
using UniformFill = RandomFill<T, Uniform<T>, 1>;
template <typename T>
using NormalFill = RandomFill<T, Normal<T>, 1>;
template <typename T>
using TruncatedNormalFill = RandomFill<T, TruncatedNormal<T>, TruncatedNormal<T>::kBlocksPerGroup>;

}  // namespace

void RegisterStatefulKernels(DeviceKernels& kernels) {
  const auto floats = Types<float, double, Half, Bfloat16>("dtype");
  kernels.Add<UniformFill>("RandomUniform", floats);
  kernels.Add<NormalFill>("RandomStandardNormal", floats);
  kernels.Add<TruncatedNormalFill>("TruncatedNormal", floats);
  kernels.Add<RandomUniformInt>("RandomUniformInt", Types<int32_t, int64_t>("Tout"));
}

}  // namespace weir
