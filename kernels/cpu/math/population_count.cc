// PopulationCount.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T>
class PopulationCount final : public Kernel {
 public:
  explicit PopulationCount(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, x.shape()));
    const T* const integers = x.flat<T>().data();
    uint8_t* const counts = output->flat<uint8_t>().data();
    context.threads().ParallelFor(x.num_elements(), 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        counts[i] = static_cast<uint8_t>(std::popcount(static_cast<std::make_unsigned_t<T>>(integers[i])));
      }
    });
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterPopulationCountKernels(DeviceKernels& kernels) {
  kernels.Add<PopulationCount>(
      "PopulationCount",
      Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>("T"));
}

}  // namespace weir
