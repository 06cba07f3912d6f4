#include "distributed/transport/grpc/completion_poller.h"

namespace weir {

CompletionPoller::CompletionPoller(grpc::CompletionQueue* queue, const ListeningThreads::Options& threads,
                                   absl::Duration poll_before_sleep)
    : queue_(queue),
      poll_before_sleep_(poll_before_sleep),
      threads_(threads, [this](ListeningThreads& threads) { Run(threads); }) {}

CompletionPoller::~CompletionPoller() { queue_->Shutdown(); }

void CompletionPoller::Run(ListeningThreads& threads) {
  Patience patience(poll_before_sleep_);
  void* tag = nullptr;
  bool ok = false;
  while (!threads.MayLeave() && Next(&patience, &tag, &ok)) {
    static_cast<CompletionEvent*>(tag)->OnCompletion(ok);
  }
}

bool CompletionPoller::Next(Patience* patience, void** tag, bool* ok) {
  const int64_t start = Patience::NowNanoseconds();
  if (patience->nanoseconds() > 0 && !somebody_polls_.exchange(true, std::memory_order_acquire)) {
    grpc::CompletionQueue::NextStatus status = grpc::CompletionQueue::TIMEOUT;
    const bool has_news = Poll(patience->nanoseconds(), tag, ok, &status);
    somebody_polls_.store(false, std::memory_order_release);
    if (has_news) {
      patience->OnEvent(Patience::NowNanoseconds() - start);
      return status == grpc::CompletionQueue::GOT_EVENT;
    }
  }
  const bool has_event = queue_->Next(tag, ok);
  patience->OnEvent(Patience::NowNanoseconds() - start);
  return has_event;
}

bool CompletionPoller::Poll(int64_t nanoseconds, void** tag, bool* ok,
                            grpc::CompletionQueue::NextStatus* status) {
  const int64_t end = Patience::NowNanoseconds() + nanoseconds;
  do {
    *status = queue_->AsyncNext(tag, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    if (*status != grpc::CompletionQueue::TIMEOUT) return true;
  } while (Patience::NowNanoseconds() < end);
  return false;
}

}  // namespace weir
