// CheckNumerics and Assert: steps that stop when something is wrong.
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/value_text.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel_registry.h"

namespace weir {
namespace {

struct Found {
  bool nan = false;
  bool infinity = false;
};

// The exponent of NaN and infinity is all ones; on the bits, whatever floating-point flags this is compiled
// with.
template <typename Bits, int mantissa_bits>
Found FindNonFinite(ThreadPool& threads, const Tensor& tensor) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  constexpr Bits kInfinity = static_cast<Bits>((kSign - 1) >> mantissa_bits << mantissa_bits);
  const Bits* bits = static_cast<const Bits*>(tensor.data());
  std::atomic<bool> nan{false}, infinity{false};
  threads.ParallelFor(tensor.num_elements(), 0.3, [&](int64_t begin, int64_t end) {
    Bits largest = 0;
    for (int64_t i = begin; i < end; ++i) {
      const Bits magnitude = static_cast<Bits>(bits[i] & ~kSign);
      largest = magnitude > largest ? magnitude : largest;
    }
    if (largest < kInfinity) return;
    for (int64_t i = begin; i < end; ++i) {
      const Bits magnitude = static_cast<Bits>(bits[i] & ~kSign);
      if (magnitude == kInfinity) infinity = true;
      if (magnitude > kInfinity) nan = true;
    }
  });
  return {nan, infinity};
}

Found FindNonFinite(ThreadPool& threads, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat64:
      return FindNonFinite<uint64_t, 52>(threads, tensor);
    case DType::kHalf:
      return FindNonFinite<uint16_t, 10>(threads, tensor);
    case DType::kBfloat16:
      return FindNonFinite<uint16_t, 7>(threads, tensor);
    default:
      return FindNonFinite<uint32_t, 23>(threads, tensor);
  }
}

class CheckNumerics final : public Kernel {
 public:
  explicit CheckNumerics(const KernelConstruction& construction)
      : message_(construction.attr<std::string>("message")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& tensor = context.input(0);
    const Found found = FindNonFinite(context.threads(), tensor);
    if (found.nan || found.infinity) {
      return NotFinite(message_, found.nan, found.infinity, tensor);
    }
    context.set_output(0, tensor);
    return absl::OkStatus();
  }

 private:
  const std::string message_;
};

class Assert final : public Kernel {
 public:
  explicit Assert(const KernelConstruction& construction)
      : summarize_(construction.attr<int64_t>("summarize")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& condition = context.input(0);
    if (condition.num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("condition must be a scalar, is ", condition.shape().ToString()));
    }
    if (condition.scalar<bool>()) return absl::OkStatus();
    std::string message = "assertion failed:";
    for (int i = 1; i < context.num_inputs(); ++i) {
      absl::StrAppend(&message, " ", ValueText(context.input(i), summarize_));
    }
    return absl::InvalidArgumentError(message);
  }

 private:
  const int64_t summarize_;
};

}  // namespace

void RegisterChecksKernels(DeviceKernels& kernels) {
  kernels.Add<CheckNumerics>("CheckNumerics",
                             {{"T", {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}}});
  kernels.Add<Assert>("Assert");
}

}  // namespace weir
