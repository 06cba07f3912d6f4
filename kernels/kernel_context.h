// What a kernel sees of the step it runs in: its inputs, where its outputs go, its device.
//
// Lives during one Compute (for an AsyncKernel until `done`). Not thread safe: one kernel, one thread at a
// time. Made by the executors without allocation: inputs and outputs are slots of the step's frame.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"
#include "kernels/device.h"
#include "kernels/memory_kind.h"
#include "kernels/pending_work.h"

namespace weir {

class Rendezvous;  // session/rendezvous.h: only Send and Recv, which session/ registers, look inside
class Threads;     // kernels/threads.h

// The step as kernels may know it; one per partition run, shared by its kernels.
struct StepContext {
  int64_t step_id = 0;
  Cancellation* cancellation = nullptr;
  Rendezvous* rendezvous = nullptr;
  Threads* threads = nullptr;
  PendingWork* pending = nullptr;
};

class KernelContext {
 public:
  // Slots: input i is slots[input_slots[i]], and may be taken over when last_use[i] is true (no later node
  // reads that slot); output i is slots[first_output + i] and output types are dtypes[i]. On a device with
  // memory of its own `output_kinds` say where outputs go, and `own_kind` where everything else does that the
  // kernel allocates; null: all is in the device's memory.
  KernelContext(const StepContext& step, Device& device, Tensor* slots, const int32_t* input_slots,
                const bool* last_use, int num_inputs, int32_t first_output, const DType* output_types,
                int num_outputs, const MemoryKind* output_kinds = nullptr,
                MemoryKind own_kind = MemoryKind::kDevice)
      : step_(step),
        device_(device),
        slots_(slots),
        input_slots_(input_slots),
        last_use_(last_use),
        output_types_(output_types),
        output_kinds_(output_kinds),
        own_kind_(own_kind),
        first_output_(first_output),
        num_inputs_(num_inputs),
        num_outputs_(num_outputs) {}

  int num_inputs() const { return num_inputs_; }
  int num_outputs() const { return num_outputs_; }
  const Tensor& input(int index) const { return slots_[input_slots_[index]]; }
  DType output_type(int index) const { return output_types_[index]; }
  // The tensor set so far for an output.
  Tensor& output(int index) { return slots_[first_output_ + index]; }

  // Shares the tensor's buffer with the output.
  void set_output(int index, Tensor tensor) { output(index) = std::move(tensor); }

  // Dead: not computed, because the branch of a conditional was not taken. On entry, of the inputs; see
  // Kernel::runs_when_dead. A kernel may set it: its outputs are then dead.
  bool is_dead() const { return is_dead_; }
  void set_dead(bool is_dead) { is_dead_ = is_dead; }

  // A new tensor of the output's dtype, elements undefined. ResourceExhausted when memory runs out.
  absl::StatusOr<Tensor*> AllocateOutput(int index, const Shape& shape);

  // The first of `candidates` whose buffer nobody else will read, with the output's dtype and as many
  // elements as `shape`, becomes the output (in place); otherwise a new tensor. The kernel may read that
  // input while it writes the output only element by element at equal positions.
  absl::StatusOr<Tensor*> ForwardOrAllocateOutput(std::initializer_list<int> candidates, int index,
                                                  const Shape& shape);

  // Memory for the time of this call.
  absl::StatusOr<Tensor> AllocateTemporary(DType dtype, const Shape& shape);

  Device& device() const { return device_; }
  // Of memory that the kernel may use as its inputs and outputs are used. What it keeps in a variable comes
  // from device().allocator().
  Allocator& allocator() const {
    return own_kind_ == MemoryKind::kHost ? device_.host_allocator() : device_.allocator();
  }
  ResourceManager& resources() const { return device_.resources(); }
  ThreadPool& threads() const { return device_.threads(); }
  Cancellation& cancellation() const { return *step_.cancellation; }
  Rendezvous* rendezvous() const { return step_.rendezvous; }
  int64_t step_id() const { return step_.step_id; }
  // For asynchronous kernels: timers, and threads that may wait. Null outside of a step.
  Threads* step_threads() const { return step_.threads; }
  // For what goes on when the kernel has returned. Null where nobody waits for it: then the kernel does.
  PendingWork* pending() const { return step_.pending; }

 private:
  Allocator& AllocatorOf(int output) const {
    if (output_kinds_ == nullptr) return device_.allocator();
    return output_kinds_[output] == MemoryKind::kHost ? device_.host_allocator() : device_.allocator();
  }
  bool CanForward(int input, DType dtype, const Shape& shape) const;

  const StepContext& step_;
  Device& device_;
  Tensor* const slots_;
  const int32_t* const input_slots_;
  const bool* const last_use_;
  const DType* const output_types_;
  const MemoryKind* const output_kinds_;
  const MemoryKind own_kind_;
  const int32_t first_output_;
  const int num_inputs_;
  const int num_outputs_;
  bool is_dead_ = false;
};

// The handle that an input is. InvalidArgument when it is not one handle.
absl::StatusOr<const ResourceHandle*> HandleInput(const KernelContext& context, int input);

// The resource behind a handle input: the handle's own pointer, else looked up by name. InvalidArgument when
// the input is not a handle of a T; NotFound when the resource is gone.
template <typename T>
absl::StatusOr<RefPtr<T>> LookupResource(const KernelContext& context, int input) {
  const absl::StatusOr<const ResourceHandle*> handle = HandleInput(context, input);
  if (!handle.ok()) return handle.status();
  Resource* const resource = (*handle)->resource.get();
  if (T* found = dynamic_cast<T*>(resource)) return RefPtr<T>::Share(found);
  if (resource != nullptr) {
    return absl::InvalidArgumentError("input " + std::to_string(input) + " must be a handle of a " +
                                      T::kTypeName + ", is one of " + resource->ToString());
  }
  return context.resources().Lookup<T>((*handle)->container, (*handle)->name);
}

}  // namespace weir
