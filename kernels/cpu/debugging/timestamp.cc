// Timestamp: in whole microseconds, as TensorFlow's.
#include "absl/time/time.h"
#include "kernels/cpu/session_environment.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class Timestamp final : public Kernel {
 public:
  explicit Timestamp(const KernelConstruction& construction) : environment_(EnvironmentOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const auto microseconds = static_cast<double>(absl::ToUnixMicros(environment_.TimeOfDay()));
    context.set_output(0, Tensor::Scalar(microseconds / 1e6));
    return absl::OkStatus();
  }

 private:
  const Environment& environment_;
};

}  // namespace

void RegisterTimestampKernels(DeviceKernels& kernels) { kernels.Add<Timestamp>("Timestamp"); }

}  // namespace weir
