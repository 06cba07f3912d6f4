// Takes events off a gRPC completion queue on one or more threads, sleeping as late as it pays.
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <utility>

#include "absl/time/time.h"
#include "distributed/timing/listening_threads.h"

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

  // For an event that may compute for long: see listening_threads.h.
  void Compute(ListeningThreads::Work work) { threads_.Compute(std::move(work)); }

 private:
  // Whether polling has been paying off, from how long recent events took to come. One per thread.
  class Patience {
   public:
    explicit Patience(absl::Duration limit);
    // How long to poll before the next sleep.
    int64_t nanoseconds() const { return credit_ > 0 ? limit_ns_ : 0; }
    void OnEvent(int64_t waited_ns);

   private:
    static constexpr int kMaxCredit = 16;
    // With both sides asleep a round trip takes several times as long as with both awake: an event that came
    // within this multiple of the limit would probably have come within the limit.
    static constexpr int kAsleepFactor = 4;
    const int64_t limit_ns_;
    int credit_ = kMaxCredit;
  };

  void Run(ListeningThreads& threads);
  bool Next(Patience* patience, void** tag, bool* ok);
  bool Poll(int64_t nanoseconds, void** tag, bool* ok, grpc::CompletionQueue::NextStatus* status);

  grpc::CompletionQueue* const queue_;
  const absl::Duration poll_before_sleep_;
  std::atomic<bool> somebody_polls_{false};  // a second polling thread would only take a core away
  ListeningThreads threads_;                 // last: they use what is above
};

}  // namespace weir
