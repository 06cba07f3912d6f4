// Whether a worker's job is over, as the folder of its checkpoints tells one that finds no chief: the
// parameter servers were started anew after the end, and nobody is left who remembers it; or the chief died
// between the end of its last save and its last words.
//
// The job has ended when the last chief that had the folder has let go of it in good order
// (checkpoint_claim.h), and the newest checkpoint is one after which the worker wants no step. A job that
// begins anew finds such a folder too, before its chief takes it, empties it or wants more steps. So it
// counts
//
// * at once for a worker that has met that chief, or an earlier life of it, which is not there any more: it
// is
//   the worker's own job;
// * for one that has met no chief when none has taken the folder for `patience`, which is as long as a ps
// waits
//   for a lost chief.
//
// A chief that is there, or a later one than that which has ended, is waited for: it may be preparing data
// before it takes the folder.
//
// Not known here is the end of a job that has no folder, whose workers wait for a chief that is not there for
// ten minutes (TrainingSessionOptions::max_wait_for_absent_chief), or that ends for another reason than its
// last step: its workers wait as long as they were told to.
//
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/environment.h"
#include "kernels/formats/file_system.h"

namespace weir {

struct EndedJobOptions {
  std::string directory;  // of the checkpoints; empty: none
  FileSystem* files = &PosixFileSystem();
  std::string latest_filename = "checkpoint";  // of the saver
  // Whether the worker wants no step after that one.
  std::function<bool(int64_t step)> is_at_end;
  // As SessionTarget's.
  std::function<uint64_t()> met_chief;
  absl::Duration patience = absl::Minutes(10);
  Environment* environment = &RealEnvironment();
};

class EndedJob {
 public:
  explicit EndedJob(EndedJobOptions options) : options_(std::move(options)) {}

  // To be asked again and again while no chief is heard of: why none will come. Empty as long as one may; an
  // error of the disk is no reason to give it up.
  std::string WhyOver();

 private:
  const EndedJobOptions options_;
  absl::Mutex mutex_;
  // The life of the chief that had ended when it was last asked; 0: none.
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time since_ ABSL_GUARDED_BY(mutex_);  // the folder is as it is
};

// The newest checkpoint of the folder, as the file of that name says, if no step is wanted after it; empty
// when there are steps to do, as far as is known.
std::string CheckpointAtEnd(const std::string& directory, FileSystem& files,
                            absl::string_view latest_filename,
                            const std::function<bool(int64_t step)>& is_at_end);

}  // namespace weir
