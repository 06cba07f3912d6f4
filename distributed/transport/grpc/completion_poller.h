// Takes events off a gRPC completion queue on one or more threads, and calls them there. Polls before it
// sleeps (event_wait.h).
//
// Borrows the queue. Thread safety: Compute, on the poller's threads only.
#pragma once

#include <grpcpp/completion_queue.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distributed/timing/event_wait.h"
#include "distributed/timing/listening_threads.h"
#include "distributed/timing/patience.h"

namespace weir {

// What a completion queue's tag points to.
class CompletionEvent {
 public:
  virtual ~CompletionEvent() = default;
  // May destroy the event.
  virtual void OnCompletion(bool ok) = 0;
};

class CompletionPoller {
 public:
  // Borrows the queue.
  CompletionPoller(grpc::CompletionQueue* queue, const ListeningThreads::Options& threads,
                   absl::Duration poll_before_sleep);
  // Shuts the queue down (nothing may be started on it any more) and waits for its last event.
  ~CompletionPoller();

  // ResourceExhausted when the system has given it no thread: then nothing may be started on the queue, of
  // which only the destructor takes events.
  const absl::Status& status() const { return threads_.status(); }

  // For an event that may compute for long: see listening_threads.h.
  void Compute(ListeningThreads::Work work) { threads_.Compute(std::move(work)); }

 private:
  void Run(ListeningThreads& threads);
  // False when the queue was shut down and has no more events.
  bool Next(Patience* patience, void** tag, bool* ok);

  grpc::CompletionQueue* const queue_;
  const absl::Duration poll_before_sleep_;
  EventWait wait_;
  ListeningThreads threads_;  // last: they use what is above
};

}  // namespace weir
