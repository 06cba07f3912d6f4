// Which clients open calls and reset them before their requests are there, as fast as they can.
//
// gRPC keeps some 13 KB for each stream that was opened until the server has taken its call, also when it was
// reset at once, and bounds neither: a client needs 29 bytes for one. Others' calls wait behind them. A
// request counts when its call was given up before the server has taken it: in the middle, or whole but
// unread. Of clients that mean well that happens when a server was stopped for longer than their calls may
// take, and when a connection breaks, which is over then.
//
// The former cannot be told from a flood: such a server reads the calls and their resets in one go, however
// long they were apart when they were sent, and how long a call was to take is only its client's word. Its
// connection is closed once, when all that it asked for is given up, and it connects again a moment later.
//
// What is counted here are calls that the server has taken. Those that still wait behind them are counted by
// the gate (connection_gate.h).
//
// Thread safety: all methods. Memory: for as many clients as are connected.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace weir {

class RapidResets {
 public:
  // So many of all clients together within the window are too many: then each client that has more than a few
  // of them is to be closed, for a flood through many connections is one too.
  static constexpr int kLimit = 500;
  static constexpr int kFew = 4;
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  // What gRPC has read of a connection that is closed it still hands out. When nothing of it has come for
  // this long, nothing is left.
  static constexpr absl::Duration kSettled = absl::Milliseconds(100);
  // Who comes again at once does so at longer and longer intervals: from kSettled, twice as long for each
  // flood within the window, up to this.
  // (Who means well tries to connect for a second at least.)
  static constexpr absl::Duration kLongestPause = absl::Seconds(1);

  // A call of `client` was given up before its request was there. Returns the clients whose connections shall
  // be closed.
  std::vector<std::string> Note(const std::string& client, absl::Time now);

  // When new connections may be accepted: not before what was flooded is gone. Otherwise who comes again at
  // once would have its next calls read while its last ones still wait.
  absl::Time settles_at() const;

 private:
  mutable absl::Mutex mutex_;
  absl::Time window_end_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int total_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> counts_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> closed_ ABSL_GUARDED_BY(mutex_);  // and not settled
  absl::Time last_flood_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);
  absl::Time settles_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace weir
