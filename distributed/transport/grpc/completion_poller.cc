#include "distributed/transport/grpc/completion_poller.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace weir {
namespace {

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

CompletionPoller::Patience::Patience(absl::Duration limit)
    // With one core polling takes it from whoever is to answer.
    : limit_ns_(std::thread::hardware_concurrency() > 1 ? absl::ToInt64Nanoseconds(limit) : 0) {}

void CompletionPoller::Patience::OnEvent(int64_t waited_ns) {
  const int64_t soon = credit_ > 0 ? limit_ns_ : kAsleepFactor * limit_ns_;
  credit_ = waited_ns <= soon ? std::min(credit_ + 2, kMaxCredit) : std::max(credit_ - 1, -kMaxCredit);
}

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
  const int64_t start = NowNanoseconds();
  if (patience->nanoseconds() > 0 && !somebody_polls_.exchange(true, std::memory_order_acquire)) {
    grpc::CompletionQueue::NextStatus status = grpc::CompletionQueue::TIMEOUT;
    const bool has_news = Poll(patience->nanoseconds(), tag, ok, &status);
    somebody_polls_.store(false, std::memory_order_release);
    if (has_news) {
      patience->OnEvent(NowNanoseconds() - start);
      return status == grpc::CompletionQueue::GOT_EVENT;
    }
  }
  const bool has_event = queue_->Next(tag, ok);
  patience->OnEvent(NowNanoseconds() - start);
  return has_event;
}

bool CompletionPoller::Poll(int64_t nanoseconds, void** tag, bool* ok,
                            grpc::CompletionQueue::NextStatus* status) {
  const int64_t end = NowNanoseconds() + nanoseconds;
  do {
    *status = queue_->AsyncNext(tag, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    if (*status != grpc::CompletionQueue::TIMEOUT) return true;
  } while (NowNanoseconds() < end);
  return false;
}

}  // namespace weir
