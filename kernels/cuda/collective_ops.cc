// CollectiveReduce and CollectiveGather of floating-point numbers: on the GPU's memory where the group is all
// GPUs of this process (gpu_links.h), else on the host's, with copies there and back.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/status_macros.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/gpu_links.h"
#include "kernels/cuda/host_copy.h"
#include "kernels/recorder.h"

namespace weir::cuda {
namespace {

using Done = AsyncKernel::Done;

// The step's error, if its checks have found something wrong when the copy has ended.
void CopyToHostOf(const PendingWork* step, CudaDevice& device, const Tensor& tensor,
                  std::function<void(absl::StatusOr<Tensor>)> done) {
  CopyToHost(device, tensor, [&device, step, done = std::move(done)](absl::StatusOr<Tensor> copy) {
    if (copy.ok() && step != nullptr) {
      if (absl::Status error = device.ErrorOf(*step); !error.ok()) copy = std::move(error);
    }
    done(std::move(copy));
  });
}

// A kernel of the host with one input and one output, in the place of one of the device.
struct RunOnHost {
  RunOnHost(KernelContext& of, Tensor input)
      : step{.step_id = of.step_id(),
             .cancellation = &of.cancellation(),
             .rendezvous = of.rendezvous(),
             .threads = of.step_threads(),
             .pending = of.pending()},
        slots{std::move(input), Tensor()},
        output_type(of.output_type(0)),
        context(step, of.device(), slots, &kInput, &kIsLastUse, 1, 1, &output_type, 1, &kOutputKind,
                MemoryKind::kHost) {}

  static constexpr int32_t kInput = 0;
  static constexpr bool kIsLastUse = false;
  static constexpr MemoryKind kOutputKind = MemoryKind::kHost;
  const StepContext step;
  Tensor slots[2];
  const DType output_type;
  KernelContext context;
};

class GpuCollective : public AsyncKernel, public NotRecorded {
 public:
  GpuCollective(const KernelConstruction& construction, std::unique_ptr<Kernel> of_host)
      : device_(static_cast<CudaDevice&>(construction.device())),
        name_(construction.node().name()),
        size_(construction.attr<int64_t>("group_size")),
        key_(construction.attr<int64_t>("group_key"), construction.attr<int64_t>("instance_key")),
        of_host_(std::move(of_host)) {}

  void ComputeAsync(KernelContext& context, Done done) final {
    absl::StatusOr<RefPtr<Communicator>> group =
        context.resources().Lookup<Communicator>(Communicator::kContainer, NameOfGpuGroup(key_.first));
    // The kernel of the host says what is wrong with the size.
    if (!group.ok() || (*group)->size() != size_) return ComputeOnHost(context, std::move(done));
    AfterChecks(context, [this, group = *std::move(group), &context,
                          done = std::move(done)](const absl::Status& status) {
      if (!status.ok()) return done(status);
      const Communicator::Call call = {.name = name_,
                                       .key = key_,
                                       .cancellation = &context.cancellation(),
                                       .allocator = &device_.allocator()};
      Start(*group, call, context.input(0), [held = group, &context, done](absl::StatusOr<Tensor> result) {
        if (result.ok()) context.set_output(0, *std::move(result));
        done(result.status());
      });
    });
  }

 private:
  virtual void Start(Communicator& group, const Communicator::Call& call, const Tensor& input,
                     Communicator::Done done) const = 0;

  // What other GPUs do with this one's numbers does not heed its notes. So a step that has looked at data
  // waits until it is known that they are good: for a copy of one number.
  void AfterChecks(KernelContext& context, Done then) const {
    const Tensor& input = context.input(0);
    if (device_.checks().NotesOf(context.pending()) == nullptr || input.num_elements() == 0) {
      return then(absl::OkStatus());
    }
    const auto* const begin = static_cast<const char*>(input.buffer()->data());
    const Tensor first(input.dtype(), Shape({1}), input.buffer(),
                       static_cast<const char*>(input.data()) - begin);
    CopyToHostOf(context.pending(), device_, first,
                 [then = std::move(then)](const absl::StatusOr<Tensor>& copy) { then(copy.status()); });
  }

  void ComputeOnHost(KernelContext& context, Done done) const {
    CopyToHostOf(context.pending(), device_, context.input(0),
                 [this, &context, done = std::move(done)](absl::StatusOr<Tensor> copy) {
                   if (!copy.ok()) return done(copy.status());
                   const auto run = std::make_shared<RunOnHost>(context, *std::move(copy));
                   of_host_->AsAsync()->ComputeAsync(
                       run->context, [this, run, &context, done](const absl::Status& ended) {
                         done(ended.ok() ? TakeBack(run->slots[1], context) : ended);
                       });
                 });
  }

  absl::Status TakeBack(const Tensor& result, KernelContext& context) const {
    WEIR_ASSIGN_OR_RETURN(Tensor output, device_.CopyIn(result, [](const absl::Status&) {}));
    context.set_output(0, std::move(output));
    return absl::OkStatus();
  }

  CudaDevice& device_;
  const std::string name_;
  const int64_t size_;
  const Communicator::Key key_;
  const std::unique_ptr<Kernel> of_host_;
};

class Reduce final : public GpuCollective {
 public:
  Reduce(const KernelConstruction& construction, std::unique_ptr<Kernel> of_host)
      : GpuCollective(construction, std::move(of_host)),
        reduction_(ReductionOf(construction.attr<std::string>("merge_op"))),
        divides_(construction.attr<std::string>("final_op") == "Div") {}

 private:
  // The schema allows no others.
  static Reduction ReductionOf(const std::string& merge_op) {
    if (merge_op == "Min") return Reduction::kMin;
    if (merge_op == "Max") return Reduction::kMax;
    return merge_op == "Mul" ? Reduction::kProduct : Reduction::kSum;
  }

  void Start(Communicator& group, const Communicator::Call& call, const Tensor& input,
             Communicator::Done done) const override {
    group.AllReduce(call, input, reduction_, divides_, std::move(done));
  }

  const Reduction reduction_;
  const bool divides_;
};

class Gather final : public GpuCollective {
 public:
  using GpuCollective::GpuCollective;

 private:
  void Start(Communicator& group, const Communicator::Call& call, const Tensor& input,
             Communicator::Done done) const override {
    group.AllGather(call, input, std::move(done));
  }
};

}  // namespace

bool IsCollectiveOfGpus(const std::string& op) {
  return op == "CollectiveReduce" || op == "CollectiveGather";
}

KernelDef OnGpus(const KernelDef& of_host) {
  KernelDef def = of_host;
  std::vector<DType>& types = def.types["T"];
  std::erase_if(types, [](DType dtype) { return !IsFloating(dtype); });
  def.is_on_host = false;
  def.create = [create = of_host.create, reduces = of_host.op == "CollectiveReduce"](
                   const KernelConstruction& construction) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, create(construction));
    if (reduces) return std::make_unique<Reduce>(construction, std::move(kernel));
    return std::make_unique<Gather>(construction, std::move(kernel));
  };
  return def;
}

}  // namespace weir::cuda
