// Runs a static program on a device that records (kernels/recorder.h): kernel by kernel, or by one launch of
// what its kernels have enqueued before.
//
// A recording is good for one signature: the shapes of the arguments. The first run with a signature goes
// kernel by kernel, so that all is made that is made once (plans, constants, memory). The second one is
// recorded, which does nothing by itself, and then launched, as all later ones are. What is fed is copied
// into tensors of the recording first; what is fetched is copied out of them afterwards.
//
// A run goes kernel by kernel, too, while an earlier launch is still being looked at, while somebody else
// holds a variable that it updates, and when a variable has other memory than at the recording: then another
// recording is made. All runs do for good, and a notice says why, once: beyond kMostSignatures; when
// kMostWasted recordings in a row were of little use; when recording fails.
//
// Memory: what is fed is there once more for each signature; what kernels need in between is shared by all of
// them. All of it goes with this object.
//
// Thread safety: all methods. Runs that record or launch take turns; they hold the locks of the program's
// variables while they enqueue, which they take after the ledger's (update_ledger.h). Borrows the program.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "graph/types/shape.h"
#include "kernels/kernel_context.h"
#include "kernels/recorder.h"
#include "session/executor/program.h"

namespace weir {

class RecordedRuns {
 public:
  static constexpr size_t kMostSignatures = 8;
  // A recording was of use when it has been launched so often.
  static constexpr int64_t kOfUse = 16;
  static constexpr int kMostWasted = 4;

  // Null for a program that cannot be recorded, or whose device does not record.
  static std::unique_ptr<RecordedRuns> Create(const Program& program);
  ~RecordedRuns();

  // See RunStaticSchedule.
  absl::Status Run(ProgramFrame& frame, const StepContext& step, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Recorded;
  struct Signature;

  RecordedRuns(const Program& program, std::unique_ptr<Recorder> recorder);

  // False: the run is to go kernel by kernel, and the frame is as before. After an error it is cleared.
  absl::StatusOr<bool> TryRecorded(ProgramFrame& frame, const StepContext& step, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Signature* Find(const ProgramFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Shape> ShapesOf(const ProgramFrame& frame) const;
  // A run with these shapes has gone well.
  void AddSignature(std::vector<Shape> shapes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False when nothing came of it.
  bool Record(Signature& signature, ProgramFrame& frame, const StepContext& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::unique_ptr<Recorded>> RecordProgram(ProgramFrame& frame, const StepContext& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the kernels enqueue. Gives what is fetched.
  absl::StatusOr<std::vector<Tensor>> RecordKernels(ProgramFrame& frame, const StepContext& step,
                                                    Recorded& recorded);
  absl::Status RecordKernel(int32_t index, ProgramFrame& frame, const StepContext& step, Recorded& recorded);
  absl::Status NoteVariables(int32_t index, const ProgramFrame& frame, Recorded& recorded) const;
  absl::StatusOr<bool> Launch(Signature& signature, ProgramFrame& frame, const StepContext& step,
                              absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status FeedAndLaunch(Recorded& recorded, const ProgramFrame& frame, const StepContext& step);
  absl::Status Fetch(const Recorded& recorded, ProgramFrame& frame, const StepContext& step);
  KernelContext ContextOf(const Instruction& at, ProgramFrame& frame, const StepContext& step) const;
  void Drop(Signature& signature, const char* why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `why`: empty where nobody needs to know.
  void GiveUp(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Program& program_;
  std::vector<uint64_t> updates_;       // keys of all that may be tried again
  std::vector<int32_t> emptied_;        // slots of arguments that are no results
  std::vector<bool> is_set_otherwise_;  // by slot: arguments, constants, what is fetched
  std::atomic<bool> has_given_up_{false};
  absl::Mutex mutex_;
  std::unique_ptr<Recorder> recorder_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Signature>> signatures_ ABSL_GUARDED_BY(mutex_);
  int num_wasted_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
