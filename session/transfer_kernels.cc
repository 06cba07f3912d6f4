#include "session/transfer_kernels.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/device.h"
#include "kernels/late_errors.h"
#include "kernels/pending_work.h"
#include "kernels/recorder.h"
#include "session/rendezvous.h"

namespace weir {
namespace {

class Send final : public Kernel, public NotRecorded {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(DeviceName to, DeviceName::Parse(construction.attr<std::string>("recv_device")));
    const int edge = static_cast<int>(construction.attr<int64_t>(kEdgeAttr));
    const bool is_in_loop = construction.node().FindAttr(kInLoopAttr) != nullptr;
    return std::unique_ptr<Kernel>(
        new Send(edge, construction.input_type(0), std::move(to), construction.device(), is_in_loop));
  }

  bool runs_when_dead() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    if (context.is_dead()) return SendOn(context, Tensor(dtype_, Shape({0})));
    return SendOn(context, context.input(0));
  }

 private:
  Send(int edge, DType dtype, DeviceName to, const Device& device, bool is_in_loop)
      : edge_(edge),
        dtype_(dtype),
        to_(std::move(to)),
        is_local_(to_.IsSameTask(device.name())),
        is_in_loop_(is_in_loop) {}

  absl::Status SendOn(KernelContext& context, const Tensor& tensor) const {
    if (is_local_) return context.rendezvous()->Send(edge_, tensor, context.is_dead());
    return context.rendezvous()->SendTo(to_, edge_, tensor, context.is_dead(), is_in_loop_);
  }

  const int edge_;
  const DType dtype_;
  const DeviceName to_;
  const bool is_local_;
  const bool is_in_loop_;
};

// Gives a late result to the caller.
class Give final : public Kernel, public NotRecorded {
 public:
  explicit Give(const KernelConstruction& construction)
      : edge_(static_cast<int>(construction.attr<int64_t>(kEdgeAttr))), dtype_(construction.input_type(0)) {}

  bool runs_when_dead() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    if (context.is_dead()) return context.rendezvous()->Send(edge_, Tensor(dtype_, Shape({0})), true);
    return context.rendezvous()->Send(edge_, context.input(0), false);
  }

 private:
  const int edge_;
  const DType dtype_;
};

class Recv final : public AsyncKernel {
 public:
  explicit Recv(const KernelConstruction& construction)
      : edge_(static_cast<int>(construction.attr<int64_t>(kEdgeAttr))), dtype_(construction.output_type(0)) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    context.rendezvous()->RecvAsync(
        edge_, [this, &context, done = std::move(done)](const absl::Status& status, const Tensor& tensor,
                                                        bool is_dead) {
          context.set_dead(is_dead);
          done(status.ok() && !is_dead ? SetOutput(context, tensor) : status);
        });
  }

 private:
  absl::Status SetOutput(KernelContext& context, const Tensor& tensor) const {
    if (tensor.dtype() != dtype_) {
      return absl::InvalidArgumentError(
          absl::StrCat("expects a tensor of ", DTypeName(dtype_), ", received ", tensor.ToString(4)));
    }
    context.set_output(0, tensor);
    return absl::OkStatus();
  }

  const int edge_;
  const DType dtype_;
};

// A copy that the step waits for in its end. `begin`: CopyIn or CopyOut of a device; `wait`: the same,
// waiting. A function has no pending work of its own: there the kernel waits, for as long as the device
// copies.
template <auto begin, auto wait>
absl::Status CopyForStep(KernelContext& context) {
  PendingWork* const pending = context.pending();
  absl::StatusOr<Tensor> copy;
  if (pending == nullptr) {
    copy = (context.device().*wait)(context.input(0));
  } else {
    pending->Begin();
    copy = (context.device().*begin)(context.input(0),
                                     [pending](const absl::Status& status) { pending->End(status); });
    if (!copy.ok()) pending->End(absl::OkStatus());  // the kernel says what is wrong
  }
  if (!copy.ok()) return copy.status();
  context.set_output(0, *std::move(copy));
  return absl::OkStatus();
}

// A copy that a node of the host waits for. It has nothing to do with what the device has found wrong by
// then.
class CopyToHost final : public AsyncKernel {
 public:
  explicit CopyToHost(const KernelConstruction& construction)
      : late_errors_(dynamic_cast<LateErrors*>(&construction.device())) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    // The kernel has its outputs when `done` is called, and CopyOut may call it before it returns.
    struct Copy {
      absl::Mutex mutex;
      int num_left ABSL_GUARDED_BY(mutex) = 2;  // CopyOut's return, and the end of the copy
      absl::Status status ABSL_GUARDED_BY(mutex);
      Done done;
    };
    const auto copy = std::make_shared<Copy>();
    copy->done = std::move(done);
    const auto end_part = [this, copy, step = context.pending()](const absl::Status& status) {
      absl::Status last;
      {
        absl::MutexLock lock(&copy->mutex);
        copy->status.Update(status);
        if (--copy->num_left > 0) return;
        last = copy->status;
      }
      if (last.ok() && late_errors_ != nullptr && step != nullptr) last = late_errors_->ErrorOf(*step);
      copy->done(last);
    };
    absl::StatusOr<Tensor> tensor = context.device().CopyOut(context.input(0), end_part);
    if (!tensor.ok()) return copy->done(tensor.status());
    context.set_output(0, *std::move(tensor));
    end_part(absl::OkStatus());
  }

 private:
  LateErrors* const late_errors_;  // null where errors are never late
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeCopyToHost(const KernelConstruction& construction) {
  const AttrValue* const attr = construction.node().FindAttr(kOnlyFetchedAttr);
  const bool* const is_only_fetched = attr == nullptr ? nullptr : attr->get_if<bool>();
  if (is_only_fetched == nullptr || !*is_only_fetched) return std::make_unique<CopyToHost>(construction);
  return std::make_unique<FunctionKernel<CopyForStep<&Device::CopyOut, &Device::ToHost>>>(construction);
}

}  // namespace

void RegisterTransferKernels(KernelRegistry& registry, absl::string_view device_type) {
  registry.Register(
      {.op = kSendOp, .device_type = std::string(device_type), .create = CreateCheckedKernel<Send>});
  registry.Register({.op = kRecvOp, .device_type = std::string(device_type), .create = CreateKernel<Recv>});
  registry.Register(
      {.op = kCopyToDeviceOp,
       .device_type = std::string(device_type),
       .create = CreateKernel<FunctionKernel<CopyForStep<&Device::CopyIn, &Device::FromHost>>>});
  registry.Register({.op = kCopyToHostOp, .device_type = std::string(device_type), .create = MakeCopyToHost});
  // Late arguments and results: the caller is at the other end.
  registry.Register({.op = kArgOp, .device_type = std::string(device_type), .create = CreateKernel<Recv>});
  registry.Register({.op = kRetvalOp, .device_type = std::string(device_type), .create = CreateKernel<Give>});
}

}  // namespace weir
