// Queues: their handles, and what steps do with them. Nothing here holds a thread while it waits.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/queue.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// A queue without shared_name belongs to one node of one session.
class PrivateQueue final : public NodeState {
 public:
  explicit PrivateQueue(absl::StatusOr<RefPtr<Queue>> queue) : queue(std::move(queue)) {}
  const absl::StatusOr<RefPtr<Queue>> queue;
};

QueueSpec SpecOf(const KernelConstruction& construction) {
  const std::string& shared_name = construction.attr<std::string>("shared_name");
  QueueSpec spec;
  spec.kind = std::string(absl::StripSuffix(construction.node().op_name(), "V2"));
  spec.name = shared_name.empty() ? construction.node().name() : shared_name;
  spec.types = construction.attr<std::vector<DType>>("component_types");
  spec.shapes = construction.attr<std::vector<PartialShape>>("shapes");
  spec.capacity = construction.attr<int64_t>("capacity");
  if (spec.kind == "RandomShuffleQueue") {
    spec.min_after_dequeue = construction.attr<int64_t>("min_after_dequeue");
    spec.seed = construction.attr<int64_t>("seed");
    spec.seed2 = construction.attr<int64_t>("seed2");
  }
  if (spec.kind == "PriorityQueue") {
    spec.types.insert(spec.types.begin(), DType::kInt64);
    spec.shapes.insert(spec.shapes.begin(), PartialShape(Shape()));
  }
  return spec;
}

absl::StatusOr<RefPtr<Queue>> FindOrCreate(const KernelConstruction& construction, const QueueSpec& spec) {
  if (!construction.attr<std::string>("shared_name").empty()) {
    return construction.device().resources().LookupOrCreate<Queue>(
        construction.attr<std::string>("container"), spec.name, [&spec] { return Queue::Create(spec); });
  }
  if (construction.session() == nullptr) return Queue::Create(spec);
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<PrivateQueue> state,
                        construction.session()->FindOrCreate<PrivateQueue>(
                            construction.device().name().ToString(), construction.node().name(),
                            [&spec] { return std::make_shared<PrivateQueue>(Queue::Create(spec)); }));
  return state->queue;
}

// The handle is made once, and holds the queue.
class QueueHandle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const QueueSpec spec = SpecOf(construction);
    WEIR_ASSIGN_OR_RETURN(RefPtr<Queue> queue, FindOrCreate(construction, spec));
    WEIR_RETURN_IF_ERROR(queue->CheckIsA(spec));
    ResourceHandle handle;
    handle.device = construction.device().name().ToString();
    handle.container = construction.attr<std::string>("container");
    handle.name = spec.name;
    handle.type_name = Queue::kTypeName;
    handle.resource = std::move(queue);
    return std::make_unique<QueueHandle>(std::move(handle));
  }

  explicit QueueHandle(ResourceHandle handle) : handle_(Tensor::Scalar(std::move(handle))) {}

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, handle_);
    return absl::OkStatus();
  }

 private:
  const Tensor handle_;
};

// An operation on the queue of input 0 that may wait.
class QueueOperation : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& context, Done done) final {
    absl::StatusOr<RefPtr<Queue>> queue = LookupResource<Queue>(context, 0);
    if (!queue.ok()) return done(queue.status());
    const Queue::Caller caller = {context.cancellation(), context.allocator(), context.threads(),
                                  context.step_threads()};
    Start(**queue, context, caller,
          [&context, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> outputs) {
            if (!outputs.ok()) return done(outputs.status());
            for (size_t i = 0; i < outputs->size(); ++i) {
              context.set_output(static_cast<int>(i), std::move((*outputs)[i]));
            }
            done(absl::OkStatus());
          });
  }

 private:
  virtual void Start(Queue& queue, KernelContext& context, const Queue::Caller& caller, Queue::Done done) = 0;
};

absl::Status CheckTimeout(const KernelConstruction& construction) {
  const int64_t timeout = construction.attr<int64_t>("timeout_ms");
  if (timeout == -1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "timeout_ms must be -1, is ", timeout, ": give the step a deadline instead, as TensorFlow demands"));
}

// Makes an `Operation` of checked attrs.
template <typename Operation>
struct WithoutTimeout {
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_RETURN_IF_ERROR(CheckTimeout(construction));
    return std::make_unique<Operation>(construction);
  }
};

template <bool is_batch>
class Enqueue final : public QueueOperation {
 public:
  explicit Enqueue(const KernelConstruction&) {}

 private:
  void Start(Queue& queue, KernelContext& context, const Queue::Caller& caller, Queue::Done done) override {
    std::vector<Tensor> components;
    for (int i = 1; i < context.num_inputs(); ++i) components.push_back(context.input(i));
    if (is_batch) return queue.EnqueueMany(caller, std::move(components), std::move(done));
    queue.Enqueue(caller, std::move(components), std::move(done));
  }
};

absl::Status CheckComponentTypes(const Queue& queue, const KernelContext& context) {
  const std::vector<DType>& types = queue.spec().types;
  bool are_equal = static_cast<int>(types.size()) == context.num_outputs();
  for (int i = 0; are_equal && i < context.num_outputs(); ++i) are_equal = types[i] == context.output_type(i);
  if (are_equal) return absl::OkStatus();
  std::string asked, held;
  for (int i = 0; i < context.num_outputs(); ++i) {
    absl::StrAppend(&asked, i == 0 ? "" : ", ", DTypeName(context.output_type(i)));
  }
  for (const DType type : types) absl::StrAppend(&held, held.empty() ? "" : ", ", DTypeName(type));
  return absl::InvalidArgumentError(absl::StrCat("component_types are (", asked, ") but ", queue.spec().kind,
                                                 " '", queue.spec().name, "' holds (", held, ")"));
}

class Dequeue final : public QueueOperation {
 public:
  explicit Dequeue(const KernelConstruction&) {}

 private:
  void Start(Queue& queue, KernelContext& context, const Queue::Caller& caller, Queue::Done done) override {
    if (absl::Status status = CheckComponentTypes(queue, context); !status.ok())
      return done(std::move(status));
    queue.Dequeue(caller, std::move(done));
  }
};

template <bool allows_fewer>
class DequeueBatch final : public QueueOperation {
 public:
  explicit DequeueBatch(const KernelConstruction&) {}

 private:
  void Start(Queue& queue, KernelContext& context, const Queue::Caller& caller, Queue::Done done) override {
    if (absl::Status status = CheckComponentTypes(queue, context); !status.ok())
      return done(std::move(status));
    const Tensor& count = context.input(1);
    if (count.num_elements() != 1) {
      return done(absl::InvalidArgumentError(absl::StrCat("n must be one number, is ", count.ToString())));
    }
    queue.DequeueMany(caller, IntegerAt(count, 0), allows_fewer, std::move(done));
  }
};

class CloseQueue final : public QueueOperation {
 public:
  explicit CloseQueue(const KernelConstruction& construction)
      : cancels_enqueues_(construction.attr<bool>("cancel_pending_enqueues")) {}

 private:
  void Start(Queue& queue, KernelContext&, const Queue::Caller& caller, Queue::Done done) override {
    queue.Close(caller, cancels_enqueues_, std::move(done));
  }

  const bool cancels_enqueues_;
};

absl::Status ComputeIsClosed(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Queue> queue, LookupResource<Queue>(context, 0));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, {}));
  output->flat<bool>()[0] = queue->is_closed();
  return absl::OkStatus();
}

absl::Status ComputeSize(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Queue> queue, LookupResource<Queue>(context, 0));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, {}));
  output->flat<int32_t>()[0] = static_cast<int32_t>(queue->size());
  return absl::OkStatus();
}

}  // namespace

void RegisterQueuesKernels(DeviceKernels& kernels) {
  for (const char* op : {"FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2"}) {
    kernels.Add<QueueHandle>(op);
  }
  kernels.Add<WithoutTimeout<Enqueue</*is_batch=*/false>>>("QueueEnqueueV2");
  kernels.Add<WithoutTimeout<Enqueue</*is_batch=*/true>>>("QueueEnqueueManyV2");
  kernels.Add<WithoutTimeout<Dequeue>>("QueueDequeueV2");
  kernels.Add<WithoutTimeout<DequeueBatch</*allows_fewer=*/false>>>("QueueDequeueManyV2");
  kernels.Add<WithoutTimeout<DequeueBatch</*allows_fewer=*/true>>>("QueueDequeueUpToV2");
  kernels.Add<CloseQueue>("QueueCloseV2");
  kernels.Add<&ComputeIsClosed>("QueueIsClosedV2");
  kernels.Add<&ComputeSize>("QueueSizeV2");
}

}  // namespace weir
