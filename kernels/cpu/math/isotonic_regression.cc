// IsotonicRegression.
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Neighbours whose means would rise, pooled.
struct Pool {
  double mean() const { return sum / static_cast<double>(count); }

  double sum;
  int64_t count;
};

// The row that does not rise and is nearest to `values` in squares, by pooling adjacent violators: each value
// is a pool of its own at first, and is joined to the one before it as long as that has a lower mean.
// (Best and Chakravarti, "Active set algorithms for isotonic regression", 1990.)
template <typename T, typename Out>
void Regress(const T* values, int64_t length, Pool* pools, Out* output, int32_t* segments) {
  int64_t num_pools = 0;
  for (int64_t i = 0; i < length; ++i) {
    pools[num_pools++] = {static_cast<double>(values[i]), 1};
    while (num_pools > 1 && pools[num_pools - 1].mean() > pools[num_pools - 2].mean()) {
      const Pool& last = pools[--num_pools];
      pools[num_pools - 1].sum += last.sum;
      pools[num_pools - 1].count += last.count;
    }
  }
  int64_t at = 0;
  for (int64_t segment = 0; segment < num_pools; ++segment) {
    for (int64_t i = 0; i < pools[segment].count; ++i, ++at) {
      output[at] = static_cast<Out>(pools[segment].mean());
      segments[at] = static_cast<int32_t>(segment);
    }
  }
}

template <typename T, typename Out>
class IsotonicRegression final : public Kernel {
 public:
  explicit IsotonicRegression(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Shape& shape = input.shape();
    const int64_t length = shape.rank() == 0 ? 1 : shape.dim(shape.rank() - 1);
    if (length > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("segments of rows of ", length, " elements do not fit in int32"));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * segments, context.AllocateOutput(1, shape));
    if (input.num_elements() == 0) return absl::OkStatus();
    constexpr int64_t kPoolBytes = sizeof(Pool);
    WEIR_ASSIGN_OR_RETURN(
        Tensor room, context.AllocateTemporary(DType::kUint8, Shape({input.num_elements() * kPoolBytes})));
    Pool* const pools = static_cast<Pool*>(room.data());
    const T* const values = input.flat<T>().data();
    Out* const results = output->flat<Out>().data();
    int32_t* const numbers = segments->flat<int32_t>().data();
    constexpr double kNanosecondsPerElement = 10;
    context.threads().ParallelFor(input.num_elements() / length,
                                  kNanosecondsPerElement * static_cast<double>(length),
                                  [=](int64_t begin, int64_t end) {
                                    for (int64_t at = begin * length; at < end * length; at += length) {
                                      Regress(values + at, length, pools + at, results + at, numbers + at);
                                    }
                                  });
    return absl::OkStatus();
  }
};

template <typename Out, typename... T>
void AddOfOutput(DeviceKernels& kernels) {
  (kernels.Add<IsotonicRegression<T, Out>>("IsotonicRegression",
                                           {{"T", {DTypeOf<T>}}, {"output_dtype", {DTypeOf<Out>}}}),
   ...);
}

}  // namespace

// Those that TensorFlow has.
void RegisterIsotonicRegressionKernels(DeviceKernels& kernels) {
  AddOfOutput<float, float, int8_t, int16_t>(kernels);
  AddOfOutput<double, double, int32_t, int64_t>(kernels);
  AddOfOutput<Half, Half>(kernels);
  AddOfOutput<Bfloat16, Bfloat16>(kernels);
}

}  // namespace weir
