#include "kernels/cuda/cuda_kernel.h"

#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/node_error.h"

namespace weir::cuda {
namespace {

// Names a call of a function, which has no end that anybody waits for: there the kernel waits.
class NoWork final : public PendingWork {
 public:
  void Begin() override {}
  void End(const absl::Status&) override {}
};

}  // namespace

absl::Status CudaKernel::Check(KernelContext& context, std::vector<Tensor> data, Explain explain,
                               absl::FunctionRef<absl::Status(const DataErrorPlace&)> launch) const {
  // The kernel may be gone before the step's end is known.
  auto explain_late = [device = &device_, op = node_op_, name = node_name_, data = std::move(data),
                       explain = std::move(explain)](const DataError& found) {
    absl::Status status;
    std::vector<Tensor> on_host;
    for (const Tensor& tensor : data) {
      const absl::StatusOr<Tensor> copy = device->ReadBack(tensor);
      status.Update(copy.status());
      if (copy.ok()) on_host.push_back(*copy);
    }
    return ErrorOfNode(op, name, device->name(), status.ok() ? explain(on_host, found) : status);
  };
  DataChecks& checks = device_.checks();
  if (context.pending() != nullptr) return checks.Check(*context.pending(), std::move(explain_late), launch);
  const NoWork function;
  absl::Status status = checks.Check(function, std::move(explain_late), launch);
  if (status.ok()) status = Await();
  const absl::Status found = checks.EndStep(function, !status.ok());
  return status.ok() ? found : status;
}

absl::Status CudaKernel::Await() const {
  const int64_t mark = device_.checks().Mark();
  WEIR_ASSIGN_OR_RETURN(const RefPtr<CudaEvent> end, stream().Record());
  WEIR_RETURN_IF_ERROR(end->Wait());
  device_.checks().NoteDone(mark);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorToUpdate(const Variable& variable, CudaDevice& device) {
  WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWrite(variable, device));
  const Tensor& now = variable.tensor;
  if (next.data() != now.data() && now.num_bytes() > 0) {
    WEIR_RETURN_IF_ERROR(device.stream().Copy(CudaCopy::kOnDevice, next.data(), now.data(), now.num_bytes()));
  }
  return next;
}

}  // namespace weir::cuda
