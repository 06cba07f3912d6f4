// Waits for the checkpoints that another program writes into a folder (tf.train.checkpoints_iterator): what
// an evaluator follows.
//
// Next gives the newest checkpoint, each once; those that came and went in the meantime are not seen. The
// folder, and its file `checkpoint`, need not be there yet. One that a chief whose life was over has written
// over is named on stderr and left out (CheckNotReplaced of checkpoint_manifest.h).
//
// Thread safety: Next on one thread at a time; RequestStop from any.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/formats/file_system.h"

namespace weir {

struct CheckpointIteratorOptions {
  // At least this long after the one before.
  absl::Duration min_interval = absl::ZeroDuration();
  // How long one call waits for a new checkpoint.
  absl::Duration timeout = absl::InfiniteDuration();
  // Asked after each timeout: true ends the iteration (training is over), false goes on waiting. Without it
  // the first timeout ends the iteration.
  std::function<bool()> timeout_fn;
  // How often the folder is looked at.
  absl::Duration poll_interval = absl::Seconds(1);
  std::string latest_filename = "checkpoint";
  FileSystem* file_system = &PosixFileSystem();
};

class CheckpointIterator {
 public:
  explicit CheckpointIterator(std::string directory, CheckpointIteratorOptions options = {});

  // The prefix of a checkpoint; nothing when the iteration has ended. Waiting for the first one is said once
  // on stderr. Errors: DeadlineExceeded, naming the folder and what it lacks, when there never was a
  // checkpoint and no timeout_fn says that this is right; DataLoss for a file `checkpoint` that does not
  // parse.
  absl::StatusOr<std::optional<std::string>> Next();

  // Ends the iteration, also while Next waits.
  void RequestStop();

 private:
  // What the file `checkpoint` names, if it is there; else the reason in why_none_.
  absl::StatusOr<std::optional<std::string>> Newest();
  void SayOnceThatNoneIsThere();
  // False when a stop was requested.
  bool Sleep(absl::Duration duration);

  const std::string directory_;
  const CheckpointIteratorOptions options_;
  std::string last_, left_out_;
  absl::Time last_time_ = absl::InfinitePast();
  std::string why_none_;
  bool has_said_so_ = false;
  absl::Mutex mutex_;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
