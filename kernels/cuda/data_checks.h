// The checks of data that steps have on a device: notes for their kernels (data_error.h), and what the host
// makes of them.
//
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/buffer.h"
#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/data_error.h"
#include "kernels/pending_work.h"

namespace weir {

// Names work that is recorded, to be repeated in many steps, in the place of a step. Its notes stay its own.
class RecordedChecks final : public PendingWork {
 public:
  void Begin() override {}
  void End(const absl::Status&) override {}

 private:
  friend class DataChecks;
  struct Place;
  std::shared_ptr<Place> place_;  // null: it has no checks, or is being recorded
};

class DataChecks {
 public:
  // What a check that has found something says. It keeps what it needs for that: inputs that must not change.
  using Explain = std::function<absl::Status(const cuda::DataError& found)>;

  // The stream and the allocator, which is its device's, must outlive this.
  DataChecks(CudaStream& stream, CachingAllocator& allocator) : stream_(stream), allocator_(allocator) {}
  // Waits for what the stream has to do.
  ~DataChecks();
  DataChecks(const DataChecks&) = delete;
  DataChecks& operator=(const DataChecks&) = delete;

  // Calls `launch`, which enqueues a kernel that takes note of what it finds. The error is that of an earlier
  // step when one has been found since its end; then nothing is enqueued. While work is recorded, nobody
  // looks for that.
  absl::Status Check(const PendingWork& step, Explain explain,
                     absl::FunctionRef<absl::Status(const cuda::DataErrorPlace&)> launch);

  // For kernels of the step that change variables: they do nothing when something was found. Null when it has
  // had no check so far, or is none.
  volatile cuda::DataError* NotesOf(const PendingWork* step) const;

  // For recorded work that looks at data: the error of an earlier step, once, when one has been found since
  // its end.
  absl::Status EarlierError(const RecordedChecks& recorded);

  // Recorded work, with all its checks. It must not be recorded on a stream that does the work.
  void EndRecording(RecordedChecks& recorded);
  // Whether the steps that have repeated the work are over, and what they have found is known.
  bool IsFree(const RecordedChecks& recorded);
  // Calls `launch`, which enqueues the recorded work for the step. Precondition: IsFree.
  absl::Status Repeat(const PendingWork& step, const RecordedChecks& recorded,
                      absl::FunctionRef<absl::Status()> launch);
  // It will not be repeated any more.
  void Forget(RecordedChecks& recorded);

  // Names what has been enqueued by now; NoteDone says that the stream has done it.
  int64_t Mark() const;
  void NoteDone(int64_t mark);

  // See LateErrors.
  absl::Status ErrorOf(const PendingWork& step);
  absl::Status EndStep(const PendingWork& step, bool has_failed);

 private:
  static constexpr int kChunk = 256;  // notes that are allocated at once

  // The notes of one step.
  struct Notes {
    volatile cuda::DataError* here = nullptr;
    volatile cuda::DataError* mirror = nullptr;
    // Of check i + 1. Shared by the steps that repeat recorded work.
    std::shared_ptr<std::vector<Explain>> explains = std::make_shared<std::vector<Explain>>();
    int64_t last = 0;                                 // the mark of the last check
    RefPtr<CudaEvent> end;                            // of a step that is over, when that came after its end
    std::shared_ptr<RecordedChecks::Place> recorded;  // whose they are; null: nobody's
  };
  struct Chunk {
    RefPtr<Buffer> here;
    void* mirror = nullptr;
  };

  absl::StatusOr<std::unique_ptr<Notes>> TakeFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddChunk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFinal(const Notes& notes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeEarlierError() ABSL_LOCKS_EXCLUDED(mutex_);
  // The first one of those that are over and have found something; those before it are free again.
  std::unique_ptr<Notes> TakeFound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, left where it is; null when there is none.
  const Notes* LookForFound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static cuda::DataError Read(const Notes& notes);
  // What says what was found, with copies of what it needs: the step may add checks meanwhile. Null when
  // nothing was found.
  static std::function<absl::Status()> ExplanationOf(const Notes& notes);
  static absl::Status Explained(const Notes& notes);
  void Free(std::unique_ptr<Notes> notes) ABSL_LOCKS_EXCLUDED(mutex_);
  void FreeLocked(std::unique_ptr<Notes> notes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddFree(volatile cuda::DataError* here, volatile cuda::DataError* mirror)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CudaStream& stream_;
  CachingAllocator& allocator_;
  mutable absl::Mutex mutex_;
  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Notes>> free_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const PendingWork*, std::unique_ptr<Notes>> of_steps_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Notes>> over_ ABSL_GUARDED_BY(mutex_);  // whose end nobody has seen
  int64_t num_checks_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
