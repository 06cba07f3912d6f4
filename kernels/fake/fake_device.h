// A device that pretends: type "GPU", tensors in host memory, kernels of the CPU.
//
// For tests of everything that is about devices and not about speed: placement, copies between devices,
// running out of memory. Copies are real copies, so a missing Send/Recv shows.
//
// With protected memory more shows. Nobody but its kernels can touch its tensors, so that a missing copy is
// found. Copies may happen late (set_copies), as a GPU's do, in a thread of each direction, and until then a
// tensor on the host is full of kPoison: who does not wait for it reads that. A kernel computes when what was
// copied in before has come. Thread safety: all methods.
#pragma once

#include <atomic>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/device.h"
#include "kernels/fake/protected_memory.h"
#include "kernels/metered_allocator.h"
#include "kernels/serial_thread.h"

namespace weir {

// When the copies of a device with protected memory happen.
enum class FakeCopies : uint8_t {
  kAtOnce,
  kLate,  // by threads of the operating system, which a simulation knows nothing of
};

class FakeDevice final : public Device {
 public:
  static constexpr uint8_t kPoison = 0xCD;

  // attributes.memory_limit > 0 bounds the bytes of its tensors, and likewise those of its kernels on the
  // host. `memory` null: its memory is the host's.
  FakeDevice(DeviceAttributes attributes, ThreadPool& threads, std::shared_ptr<ProtectedMemory> memory);

  MemoryKind memory_kind() const override { return memory_ ? MemoryKind::kDevice : MemoryKind::kHost; }
  // Counts allocations and fails them on request.
  MeteredAllocator& allocator() override { return allocator_; }
  Allocator& host_allocator() override { return memory_ ? host_allocator_ : allocator_; }
  absl::StatusOr<Tensor> CopyIn(const Tensor& host, CopyDone done) override;
  absl::StatusOr<Tensor> CopyOut(const Tensor& device, CopyDone done) override;

  ProtectedMemory* protected_memory() const { return memory_.get(); }  // null when it is the host's
  // Returns when what was copied in has come. Before a kernel touches it.
  void AwaitCopiesIn() { copies_in_.AwaitAll(); }
  void set_copies(FakeCopies copies) { copies_ = copies; }
  // For tests: late copies stay where they are until this is called with false.
  void HoldCopies(bool are_held);

  // Copies so far, from the host and to it.
  int64_t num_copies_in() const { return num_copies_in_.load(std::memory_order_relaxed); }
  int64_t num_copies_out() const { return num_copies_out_.load(std::memory_order_relaxed); }

 private:
  absl::StatusOr<Tensor> Copy(const Tensor& from, Tensor to, SerialThread& copies, CopyDone done);
  void CopyNow(const Tensor& from, Tensor& to, const SerialThread& copies);

  std::atomic<int64_t> num_copies_in_{0}, num_copies_out_{0};
  const std::shared_ptr<ProtectedMemory> memory_;
  std::atomic<FakeCopies> copies_{FakeCopies::kAtOnce};
  MeteredAllocator allocator_, host_allocator_;
  absl::Mutex mutex_;
  bool are_held_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: they end first. What goes out is as what came in left it.
  SerialThread copies_in_, copies_out_;
};

enum class FakeMemory : uint8_t { kOfHost, kProtected };

// "/job:JOB/replica:0/task:TASK/device:GPU:INDEX" with a random incarnation.
std::unique_ptr<FakeDevice> MakeFakeDevice(absl::string_view job, int task, int index, ThreadPool& threads,
                                           int64_t memory_limit = 0, FakeMemory memory = FakeMemory::kOfHost);

}  // namespace weir
