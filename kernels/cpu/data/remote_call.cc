// RemoteCall: a function that runs on the device that a tensor names, where the graph does not say it (where
// the name is a constant, the function's nodes are the graph's, on that device: graph/interchange). That
// device must be one of the same task, with memory of the same kind.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/device_name.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class RemoteCall final : public Kernel {
 public:
  explicit RemoteCall(const KernelConstruction& construction) : function_(construction, "f") {}
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(function_.Check());
    const Tensor& target = context.input(0);
    if (!target.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("target must be one name of a device, is ", target.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Device * device, DeviceOf(context, target.scalar<std::string>()));
    WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<Function> function, Prepared(*device));
    std::vector<Tensor> arguments;
    for (int i = 1; i < context.num_inputs(); ++i) arguments.push_back(context.input(i));
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                          function->Run(std::move(arguments), context.cancellation()));
    if (static_cast<int>(results.size()) != context.num_outputs()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the function gives ", results.size(), " tensors, not ", context.num_outputs()));
    }
    for (int i = 0; i < context.num_outputs(); ++i) {
      if (results[i].dtype() != context.output_type(i)) {
        return absl::InvalidArgumentError(absl::StrCat("the function gives ", DTypeName(results[i].dtype()),
                                                       " as result ", i, ", not ",
                                                       DTypeName(context.output_type(i))));
      }
      context.set_output(i, std::move(results[i]));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Device*> DeviceOf(const KernelContext& context, const std::string& target) const {
    WEIR_ASSIGN_OR_RETURN(const DeviceName asked, DeviceName::Parse(target));
    Device* const device = function_.caller()->FindDevice(context.device().name().OverriddenBy(asked));
    if (device == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no device '", target, "' in task ", context.device().name().TaskString(),
                       ": a function can be called on one of another task only where the target is a "
                       "constant of the graph"));
    }
    if (device->memory_kind() == context.device().memory_kind()) return device;
    return absl::UnimplementedError(absl::StrCat(
        "a function on '", target, "', whose memory is not that of ", context.device().name().ToString(),
        ": that is possible only where the target is a constant of the graph"));
  }

  // Once for each device: what its nodes keep goes on in the next call.
  absl::StatusOr<std::shared_ptr<Function>> Prepared(Device& device) {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<Function>& function = prepared_[&device];
    if (function == nullptr) {
      WEIR_ASSIGN_OR_RETURN(function,
                            function_.caller()->Prepare(*function_.body(), device, function_.files()));
    }
    return function;
  }

  const FunctionOfNode function_;
  absl::Mutex mutex_;
  std::map<Device*, std::shared_ptr<Function>> prepared_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void RegisterRemoteCallKernels(DeviceKernels& kernels) { kernels.Add<RemoteCall>("RemoteCall"); }

}  // namespace weir
