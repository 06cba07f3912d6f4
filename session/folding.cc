#include "session/folding.h"

#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/evaluate.h"
#include "kernels/formats/allowed_files.h"

namespace weir {
namespace {

std::unique_ptr<Device> MakeDevice(ThreadPool& threads) {
  DeviceAttributes attributes;
  attributes.name = MakeDeviceName("folding", 0, "CPU", 0);
  attributes.memory_limit = Folding::kMaxBytes;
  return std::make_unique<CpuDevice>(std::move(attributes), threads);
}

absl::Status TimeIsOver() { return absl::DeadlineExceededError("compiling is over"); }

}  // namespace

Folding::Folding(const KernelRegistry& kernels, ThreadPool& threads, Environment& environment,
                 absl::Time deadline)
    : kernels_(kernels), environment_(environment), deadline_(deadline), device_(MakeDevice(threads)) {}

absl::StatusOr<std::vector<Tensor>> Folding::Evaluate(const Node& node, absl::Span<const Tensor> inputs) {
  if (state_ == nullptr) {
    // The files of a node are those of its task, which may differ from this one's, and may change.
    WEIR_ASSIGN_OR_RETURN(std::shared_ptr<FileSystem> no_files, AllowedFiles::In({}));
    state_ = std::make_unique<SessionState>(std::move(no_files));
    EndAtDeadline();
  }
  if (environment_.Now() >= deadline_) Cancel(TimeIsOver());
  if (cancellation_.is_cancelled()) return cancellation_.reason();
  absl::StatusOr<std::vector<Tensor>> outputs =
      EvaluateNode(node, inputs, *device_, kernels_, state_.get(), cancellation_);
  // A kernel that was cancelled may return early with anything: a step would not look at it either.
  if (cancellation_.is_cancelled()) return cancellation_.reason();
  return outputs;
}

void Folding::EndAtDeadline() {
  // In a simulation no time passes while a kernel computes, and a thread more would change its order.
  if (environment_.is_simulated()) return;
  timers_ = environment_.MakeTimers();
  timers_->At(deadline_, [this] { Cancel(TimeIsOver()); });
}

}  // namespace weir
