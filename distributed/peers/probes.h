// Looks whether a task whose connection broke is still there.
//
// A connection that broke says little: a link may flap. An address that refuses connections, twice, says that
// the process is gone; so does another process that answers there. Then the life of the task is over
// (Membership::OnGone). Silence says nothing: that is what leases are for.
//
// The authority looks when a call that it holds for the task breaks, or another task reports that it cannot
// reach it; the others look for the authority. Takes kLongest at most.
//
// Thread safety: all methods. Borrows peers; must be destroyed before it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/membership.h"
#include "distributed/peers/peers.h"

namespace weir {

class Probes {
 public:
  enum class Finding { kThere, kGone, kUnknown };
  using Then = std::function<void(Finding finding)>;

  static constexpr absl::Duration kAgain = absl::Milliseconds(100);
  static constexpr absl::Duration kLongest = absl::Milliseconds(1500);

  explicit Probes(Peers& peers);
  ~Probes() { Stop(); }
  // What is being looked for is not found any more: `then` is not called, and membership hears of nobody.
  // When it returns, neither is under way.
  void Stop();

  // For a task that is alive in that life, as far as is known; of others, kGone, and kUnknown of one that has
  // said that it leaves. `then` is called once, without any lock, maybe before Look returns; null for nobody.
  // Those who look for the same share the answer.
  void Look(const TaskName& task, Incarnation life, Then then);

 private:
  struct Probe {
    absl::Time end;
    absl::Time refused = absl::InfiniteFuture();  // for the first time
    std::vector<Then> asked;
  };
  using Key = std::pair<TaskName, Incarnation>;
  struct State {
    absl::Mutex mutex;
    Probes* owner ABSL_GUARDED_BY(mutex) = nullptr;  // null when it is gone
  };

  void Attempt(const Key& key);
  void OnReply(const Key& key, const absl::Status& status);
  void Finish(const Key& key, Finding finding);

  Peers& peers_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  absl::Mutex mutex_;
  std::map<Key, Probe> probes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
