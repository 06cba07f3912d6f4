// The compiled steps of a client's session, by what the client names.
//
// When there are too many, the one whose last use is longest ago goes. Each counts as a plan of the clients
// (peer_limits.h) while it is here. Thread safety: all methods.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "distributed/peer_limits.h"
#include "session/session.h"

namespace weir {

class PreparedSteps {
 public:
  static constexpr size_t kMaxSteps = 1024;

  // Null when it is not there.
  std::shared_ptr<PreparedStep> Find(absl::string_view key);
  // Another thread may have added the same one: that stays.
  void Add(std::string key, std::shared_ptr<PreparedStep> step, PeerUse::Share room);
  // All of them go, and none is kept any more.
  void Close();

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<PreparedStep> step;
    PeerUse::Share room;
  };

  absl::Mutex mutex_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the one used last first
  absl::flat_hash_map<absl::string_view, std::list<Entry>::iterator> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
