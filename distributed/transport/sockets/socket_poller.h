// Waits for events of sockets on one or more threads. Polls before it sleeps (event_wait.h).
//
// A socket is armed for one event; when it has been called for that, it arms itself again for the events that
// it wants next. So one thread at a time handles a socket's input; the kernel chooses which.
//
// Thread safety: all methods; Compute on the poller's threads only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/timing/event_wait.h"
#include "distributed/timing/listening_threads.h"
#include "distributed/timing/patience.h"

namespace weir {

class SocketPoller {
 public:
  // A file descriptor, and what is to be done when it is ready.
  class Socket {
   public:
    virtual ~Socket() = default;
    // Called on a thread of the poller, once for each arming; `events` as epoll reports them.
    virtual void OnReady(uint32_t events) = 0;
  };
  using Id = uint64_t;

  // ResourceExhausted when the process has no descriptors left, or the system gives it no thread.
  static absl::StatusOr<std::unique_ptr<SocketPoller>> Start(const ListeningThreads::Options& threads,
                                                             absl::Duration poll_before_sleep);
  // Stop(). Sockets that are left are dropped without being called.
  ~SocketPoller();

  // Waits until the threads have finished what they are doing, and ends them. Not to be called on one of
  // them.
  void Stop();

  // Adds a socket, which is not armed yet. ResourceExhausted when the system refuses.
  absl::StatusOr<Id> Add(int fd, std::shared_ptr<Socket> socket);
  // Arms for the next of `events`; one that has come already counts. 0: for none.
  void Arm(Id id, int fd, uint32_t events);
  // Calls a socket soon as if bytes had come.
  void Post(Id id);
  // Call it before the descriptor is closed. The socket may still be called for an event that is on its way.
  void Remove(Id id, int fd);

  // For what may compute for long: see listening_threads.h.
  void Compute(ListeningThreads::Work work) { threads_->Compute(std::move(work)); }

 private:
  struct Event {
    Id id = 0;
    uint32_t events = 0;
  };

  SocketPoller(int epoll, int wake, absl::Duration poll_before_sleep)
      : epoll_(epoll), wake_(wake), poll_before_sleep_(poll_before_sleep) {}

  void Run(ListeningThreads& threads);
  bool Next(Patience* patience, Event* event);
  bool Wait(int timeout_ms, Event* event);
  // The next one that was posted, or that it was stopped. False when other threads took all.
  bool TakePosted(Event* event);

  const int epoll_;
  const int wake_;  // an eventfd, readable while something is posted, and for ever once Stop was called
  const absl::Duration poll_before_sleep_;
  EventWait wait_;
  absl::Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Id> posted_ ABSL_GUARDED_BY(mutex_);
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<Id, std::shared_ptr<Socket>> sockets_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ListeningThreads> threads_;  // last: they use what is above
};

}  // namespace weir
