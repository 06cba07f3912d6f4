// A queue of tensors that steps put into and take from, in TensorFlow's semantics: the resource behind
// FIFOQueueV2, PaddingFIFOQueueV2, RandomShuffleQueueV2 and PriorityQueueV2.
//
// Enqueues that find the queue full wait in one line, dequeues that find too little in another; only the
// first of a line is served. Nobody holds a thread while it waits: the thread that makes an operation
// possible completes it, calling `done` without a lock held. An operation also completes when its step is
// cancelled, with Cancelled.
//
// EnqueueMany puts elements in as soon as there is room, DequeueMany takes them as soon as they are there, so
// both may be larger than the capacity. From a PriorityQueue it takes them when all are there, as in
// TensorFlow, so that the batch is in order; one that is larger than the capacity takes what a full queue
// has. Of an EnqueueMany that is cancelled, or finds no memory, the elements that are in stay, as in
// TensorFlow. What a
// DequeueMany has taken before it is cancelled, or is refused, is put back; there TensorFlow loses the
// elements of a step that is cancelled.
//
// Memory: at most `capacity` elements, and those that the first waiting DequeueMany has taken. When these are
// put back, the queue holds more than its capacity, by less than that DequeueMany asked for; enqueues wait
// until there is room again. What many elements take beside their tensors counts on the device too: a few
// bytes may stand for very many elements without values.
//
// Errors of enqueues: Cancelled when the queue is closed; InvalidArgument for components that do not fit. Of
// dequeues: OutOfRange when the queue is closed and has too few elements; InvalidArgument for a batch of
// elements that may have any shape. Of both: ResourceExhausted when memory runs out.
//
// Thread safety: all methods. A waiting operation keeps the queue alive.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/allocator.h"
#include "graph/types/ref_counted.h"
#include "graph/types/resource_handle.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/data_flow/element_rooms.h"
#include "kernels/cpu/data_flow/queue_order.h"
#include "kernels/thread_pool.h"
#include "kernels/threads.h"

namespace weir {

struct QueueSpec {
  std::string kind;  // "FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue"
  std::string name;
  std::vector<DType> types;
  // One for each type, or none: then elements may have any shape. Only a padding queue's may have unknown
  // dimensions.
  std::vector<PartialShape> shapes;
  int64_t capacity = -1;  // negative: as many as an int32 counts
  // Of a RandomShuffleQueue. So many elements stay in it while it is open.
  int64_t min_after_dequeue = 0;
  int64_t seed = 0;
  int64_t seed2 = 0;
};

class Queue final : public Resource {
 public:
  static constexpr char kTypeName[] = "Queue";

  // The step that an operation belongs to. All borrowed until `done` is called; `threads` may be null outside
  // of a step.
  struct Caller {
    Cancellation& cancellation;
    Allocator& allocator;
    ThreadPool& copying;
    Threads* threads = nullptr;
  };
  // The components that a dequeue gives; none of the others.
  using Done = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;

  // InvalidArgument for a spec that TensorFlow refuses as well.
  static absl::StatusOr<RefPtr<Queue>> Create(QueueSpec spec);

  void Enqueue(const Caller& caller, std::vector<Tensor> components, Done done);
  // Each slice along dimension 0 is an element.
  void EnqueueMany(const Caller& caller, std::vector<Tensor> components, Done done);
  void Dequeue(const Caller& caller, Done done);
  // `count` elements in one tensor per component. `allows_fewer`: what is left when the queue is closed, but
  // at least one (DequeueUpTo).
  void DequeueMany(const Caller& caller, int64_t count, bool allows_fewer, Done done);
  // After the enqueues that wait already, no more elements come in; or those are cancelled.
  void Close(const Caller& caller, bool cancel_pending_enqueues, Done done);

  bool is_closed() const;
  int64_t size() const;
  const QueueSpec& spec() const { return spec_; }
  // InvalidArgument, naming what differs, unless the queue is one that `spec` asks for.
  absl::Status CheckIsA(const QueueSpec& spec) const;
  std::string ToString() const override;

 private:
  struct Attempt;
  using AttemptRef = std::shared_ptr<Attempt>;
  using Line = std::list<AttemptRef>;
  enum class Progress { kNone, kSome, kOver };

  explicit Queue(QueueSpec spec);

  absl::Status CheckElement(const std::vector<Tensor>& components) const;
  absl::Status CheckBatch(const std::vector<Tensor>& components) const;
  absl::Status CheckTypes(const std::vector<Tensor>& components) const;

  // Waits in its line until the operation is over.
  void Submit(AttemptRef attempt);
  Line& LineOf(const Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Serves both lines as far as possible.
  void Serve(std::vector<AttemptRef>* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ServeLine(Line& line, std::vector<AttemptRef>* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Progress TryEnqueue(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddSlice(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that are here, and those that a dequeue has taken which waits for more.
  int64_t num_held() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return elements_->size() + num_taken_; }
  // For one element more. ResourceExhausted when the device has no memory for it.
  absl::Status MakeRoom(Allocator& allocator) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NeededBy(const Attempt& attempt) const;
  Progress TryDequeue(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the result of what was taken; puts it back after an error.
  void Deliver(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<Tensor>> BatchOf(const Attempt& attempt) const;
  void PutBack(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCancel(const AttemptRef& attempt, const absl::Status& reason);
  static absl::Status EndOf(const Attempt& attempt, const absl::Status& reason);
  void ServeAndFinish();
  static void Finish(const std::vector<AttemptRef>& over);

  const QueueSpec spec_;
  mutable absl::Mutex mutex_;
  const std::unique_ptr<QueueOrder> elements_ ABSL_PT_GUARDED_BY(mutex_);
  int64_t num_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  ElementRooms rooms_ ABSL_GUARDED_BY(mutex_);  // for all that are held
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  Line enqueues_ ABSL_GUARDED_BY(mutex_);  // and closes that wait for them
  Line dequeues_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
