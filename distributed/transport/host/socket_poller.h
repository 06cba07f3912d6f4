// Waits for events of sockets on one or more threads, sleeping as late as it pays.
//
// Each socket is armed for events once: whoever is called for them arms it again, for the events it then
// wants. So one thread at a time handles a socket's input, and which one is left to the kernel.
//
// Thread safety: all methods; Compute on the poller's threads only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/timing/listening_threads.h"
#include "distributed/timing/patience.h"

namespace weir {

class SocketPoller {
 public:
  // A file descriptor, and what is to be done when it is ready.
  class Socket {
   public:
    virtual ~Socket() = default;
    // On a thread of the poller; `events` as epoll reports them. Never called twice at once for the same
    // arming.
    virtual void OnReady(uint32_t events) = 0;
  };
  using Id = uint64_t;

  // ResourceExhausted when the process has no descriptors left.
  static absl::StatusOr<std::unique_ptr<SocketPoller>> Start(const ListeningThreads::Options& threads,
                                                             absl::Duration poll_before_sleep);
  // Stop(). Sockets that are left are dropped without being called.
  ~SocketPoller();

  // Ends the threads, when they have returned from what they are doing. Not from one of them.
  void Stop();

  // Not armed yet. ResourceExhausted when the system refuses.
  absl::StatusOr<Id> Add(int fd, std::shared_ptr<Socket> socket);
  // For the next of `events`, also one that is there already. 0: for none.
  void Arm(Id id, int fd, uint32_t events);
  // It may still be called for an event that is on its way. Before the descriptor is closed.
  void Remove(Id id, int fd);

  // For what may compute for long: see listening_threads.h.
  void Compute(ListeningThreads::Work work) { threads_->Compute(std::move(work)); }

 private:
  struct Event {
    Id id = 0;
    uint32_t events = 0;
  };

  SocketPoller(int epoll, int stopped, absl::Duration poll_before_sleep)
      : epoll_(epoll), stopped_(stopped), poll_before_sleep_(poll_before_sleep) {}

  void Run(ListeningThreads& threads);
  bool Next(Patience* patience, Event* event);
  bool Wait(int timeout_ms, Event* event);

  const int epoll_;
  const int stopped_;  // an eventfd, readable for ever once Stop was called
  const absl::Duration poll_before_sleep_;
  std::atomic<bool> somebody_polls_{false};  // a second polling thread would only take a core away
  absl::Mutex mutex_;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<Id, std::shared_ptr<Socket>> sockets_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ListeningThreads> threads_;  // last: they use what is above
};

}  // namespace weir
