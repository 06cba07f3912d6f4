// A queue of work on a GPU, and marks in it that others wait for.
//
// Everything enqueued on a stream happens in order, later. What it gave out may outlive it: an event may be
// asked after its stream is gone. Thread safety: all methods; the order of calls from several
// threads is the order in which they come.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/buffer.h"
#include "graph/types/ref_counted.h"
#include "kernels/cuda/cuda_api.h"

namespace weir {

class CudaEventPool;

// "What the stream had to do when I was recorded." Goes back to its stream's pool with the last reference.
class CudaEvent final : public RefCounted {
 public:
  CudaEventHandle handle() const { return handle_; }
  absl::StatusOr<bool> IsDone() const { return api_.IsEventDone(handle_); }
  // The calling thread waits.
  absl::Status Wait() const { return api_.SynchronizeEvent(handle_); }

 private:
  friend class CudaEventPool;
  CudaEvent(CudaApi& api, CudaEventHandle handle) : api_(api), handle_(handle) {}
  ~CudaEvent() override { api_.DestroyEvent(handle_).IgnoreError(); }
  void Release() override;

  CudaApi& api_;
  const CudaEventHandle handle_;
  std::shared_ptr<CudaEventPool> pool_;  // while it is handed out
};

class CudaStream {
 public:
  // The API must outlive the stream and all its events.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(CudaApi& api, int device);
  // Waits for what is enqueued.
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CudaApi& api() const { return api_; }
  int device() const { return handle_.device; }
  // Of the device.
  int num_multiprocessors() const { return num_multiprocessors_; }
  CudaStreamHandle handle() const { return handle_; }

  // See CudaApi.
  absl::Status Copy(CudaCopy kind, void* to, const void* from, size_t num_bytes) {
    return api_.Copy(kind, to, from, num_bytes, handle_);
  }
  absl::Status Fill(void* to, uint8_t value, size_t num_bytes) {
    return api_.Fill(to, value, num_bytes, handle_);
  }

  // Marks what is enqueued now.
  absl::StatusOr<RefPtr<CudaEvent>> Record();
  // What is enqueued from now on waits for the event of this or another stream.
  absl::Status WaitFor(const CudaEvent& event) { return api_.WaitForEvent(handle_, event.handle()); }

  // Keeps the buffer until what is enqueued now is over: at least until the next Record is. For memory that
  // work of this stream uses and that its owner may give up before.
  void Keep(RefPtr<Buffer> buffer);
  // Lets go of what was kept for work that is over. Called by Record; costs a question to the driver.
  void LetGo();
  int64_t num_kept() const;

  // The calling thread waits for everything.
  absl::Status Synchronize();

 private:
  struct Kept {
    RefPtr<CudaEvent> until;
    std::vector<RefPtr<Buffer>> buffers;
  };
  CudaStream(CudaApi& api, CudaStreamHandle handle, int num_multiprocessors);

  // The buffers whose work is over; they are let go of without the lock, for their memory's owner may call
  // back.
  std::vector<RefPtr<Buffer>> TakeDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CudaApi& api_;
  const CudaStreamHandle handle_;
  const int num_multiprocessors_;
  const std::shared_ptr<CudaEventPool> events_;
  mutable absl::Mutex mutex_;
  std::deque<Kept> kept_ ABSL_GUARDED_BY(mutex_);                 // oldest first
  std::vector<RefPtr<Buffer>> unmarked_ ABSL_GUARDED_BY(mutex_);  // since the last Record
};

}  // namespace weir
