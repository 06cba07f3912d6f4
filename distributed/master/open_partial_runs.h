// The partial runs of a client's session, by their handles.
//
// A run is known until all its feeds have come and all its fetches are taken. One that has failed stays known
// by its error, which all its later parts get. When there are too many, the one that was used longest ago,
// and of which no part is under way, goes: a client may have left it. Each counts as a step and a plan of the
// clients (peer_limits.h), and what was fed to it counts until it is over. What a part that is refused
// brought counts no longer than that part.
//
// Thread safety: all methods.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "distributed/peer_limits.h"
#include "session/partial_run.h"

namespace weir {

// A run, and what its parts need to know of its graph, which they do not read: it may be locked for long.
struct OpenPartialRun {
  std::shared_ptr<PartialRun> run;
  // Of fetches that name a reference to a variable ("v:0"): the node's output that reads it, by which the run
  // knows them.
  std::shared_ptr<const absl::flat_hash_map<std::string, std::string>> values;

  // The names that the run knows.
  std::vector<TensorRef> FetchesOf(const std::vector<std::string>& names) const;
};

class OpenPartialRuns {
 public:
  static constexpr size_t kMaxRuns = 1'000;

  // ResourceExhausted when there are too many, and parts of all of them are under way.
  absl::Status Add(const std::string& handle, OpenPartialRun run, PeerUse::Share room);

  // A part of the run begins. InvalidArgument for a handle that no run has; the error that has ended the run.
  // EndPart follows when it is OK.
  absl::StatusOr<OpenPartialRun> BeginPart(absl::string_view handle);
  // `room`: what the feeds take that the run keeps; of a part that failed nothing, for either it was refused
  // or the run is over.
  void EndPart(absl::string_view handle, std::vector<PeerUse::Share> room);

  // The step of the run has ended.
  void EndStep(absl::string_view handle, const absl::Status& status);

  // All of them go.
  void Clear();

 private:
  struct Entry {
    OpenPartialRun open;  // null: it has failed
    std::vector<PeerUse::Share> room;
    absl::Status failure;
    int num_parts = 0;     // under way
    int64_t last_use = 0;  // greater is later
  };
  using Entries = absl::flat_hash_map<std::string, Entry>;

  Entry DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  int64_t num_uses_ ABSL_GUARDED_BY(mutex_) = 0;
  Entries runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
