// Which checkpoints of a saver are kept, and which are to be deleted.
//
// The newest `max_to_keep` are kept. Of those that fall out one in `keep_every` is kept for good, as in
// TensorFlow: the first that is younger than the end of the running interval. Such a checkpoint is no longer
// listed. With max_to_keep 0 nothing is deleted, and only the newest is listed.
//
// Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kernels/formats/checkpoint_state.h"

namespace weir {

class KeptCheckpoints {
 public:
  // Intervals begin at `now`.
  KeptCheckpoints(int max_to_keep, absl::Duration keep_every, absl::Time now);

  // Takes over what an earlier process has kept.
  void Recover(const CheckpointState& state);

  // Oldest first.
  std::vector<std::string> paths() const;
  bool is_empty() const { return kept_.empty(); }

  // A checkpoint was written. Returns what the file `checkpoint` shall say; RemoveOutdated is for when it
  // says so.
  CheckpointState Add(const std::string& path, absl::Time now);
  // Forgets those that are no longer named, and returns the ones to delete.
  std::vector<std::string> RemoveOutdated();

 private:
  struct Kept {
    std::string path;
    absl::Time written;  // InfinitePast when not known
  };
  size_t num_outdated() const;

  const int max_to_keep_;
  const absl::Duration keep_every_;
  absl::Time next_preserved_;  // an outdated one that is younger is kept for good
  double last_preserved_timestamp_ = 0;
  std::vector<Kept> kept_;  // oldest first
};

}  // namespace weir
