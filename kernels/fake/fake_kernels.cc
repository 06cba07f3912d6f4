#include "kernels/fake/fake_kernels.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/device_ops.h"
#include "kernels/fake/fake_device.h"

namespace weir {
namespace {

absl::string_view NameOf(MemoryKind kind) {
  return kind == MemoryKind::kHost ? "the host's memory" : "the device's memory";
}

class ProtectedKernel final : public Kernel {
 public:
  ProtectedKernel(std::unique_ptr<Kernel> kernel, ArgumentKinds kinds, FakeDevice& device)
      : kernel_(std::move(kernel)),
        kinds_(std::move(kinds)),
        device_(device),
        memory_(*device.protected_memory()) {}

  bool runs_when_dead() const override { return kernel_->runs_when_dead(); }
  bool may_block() const override { return kernel_->may_block(); }

  absl::Status Compute(KernelContext& context) override {
    for (int i = 0; i < context.num_inputs() && !context.is_dead(); ++i) {
      WEIR_RETURN_IF_ERROR(Check("input", i, context.input(i), kinds_.inputs[i]));
    }
    WEIR_RETURN_IF_ERROR(ComputeOpen(context));
    for (size_t i = 0; i < kinds_.outputs.size() && !context.is_dead(); ++i) {
      WEIR_RETURN_IF_ERROR(
          Check("output", static_cast<int>(i), context.output(static_cast<int>(i)), kinds_.outputs[i]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ComputeOpen(KernelContext& context) {
    if (kinds_.own == MemoryKind::kHost) return kernel_->Compute(context);
    device_.AwaitCopiesIn();
    const ProtectedMemory::Opening opening(memory_);
    return kernel_->Compute(context);
  }

  absl::Status Check(absl::string_view what, int index, const Tensor& tensor, MemoryKind kind) const {
    if (!tensor.is_valid() || !IsPlainBytes(tensor.dtype()) || tensor.num_bytes() == 0)
      return absl::OkStatus();
    const MemoryKind found = memory_.Contains(tensor.data()) ? MemoryKind::kDevice : MemoryKind::kHost;
    if (found == kind) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(what, " ", index, ", ", TypeString(tensor.dtype(), tensor.shape()), ", is in ",
                     NameOf(found), ", and the kernel's definition says ", NameOf(kind)));
  }

  const std::unique_ptr<Kernel> kernel_;
  const ArgumentKinds kinds_;
  FakeDevice& device_;
  ProtectedMemory& memory_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Protect(const KernelDef& def,
                                                const KernelConstruction& construction) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, def.create(construction));
  auto* const device = dynamic_cast<FakeDevice*>(&construction.device());
  // A copy leaves the elements to the device.
  const bool is_copy = def.op == kCopyToDeviceOp || def.op == kCopyToHostOp;
  if (device == nullptr || device->protected_memory() == nullptr || is_copy) return kernel;
  if (kernel->AsAsync() != nullptr) {
    // It goes on when Compute has returned, and then nothing opens the memory.
    if (def.is_on_host) return kernel;
    return absl::InternalError(absl::StrCat(def.op, " waits, and is said to compute in the device's memory"));
  }
  return std::make_unique<ProtectedKernel>(std::move(kernel), KindsOf(def, construction.node()), *device);
}

}  // namespace

void RegisterFakeKernels(KernelRegistry& registry) { RegisterCpuKernels(registry, "GPU"); }

void ProtectFakeKernels(KernelRegistry& registry, const OpRegistry& ops) {
  SetHostArguments(registry, "GPU", ops);
  registry.Change("GPU", [](KernelDef& def) {
    def.create = [unprotected = def](const KernelConstruction& construction) {
      return Protect(unprotected, construction);
    };
  });
}

}  // namespace weir
