#include "distributed/transport/grpc/completion_poller.h"

namespace weir {

CompletionPoller::CompletionPoller(grpc::CompletionQueue* queue, const ListeningThreads::Options& threads,
                                   absl::Duration poll_before_sleep)
    : queue_(queue),
      poll_before_sleep_(poll_before_sleep),
      threads_(threads, [this](ListeningThreads& threads) { Run(threads); }) {}

CompletionPoller::~CompletionPoller() {
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (!status().ok() && queue_->Next(&tag, &ok)) static_cast<CompletionEvent*>(tag)->OnCompletion(ok);
}

void CompletionPoller::Run(ListeningThreads& threads) {
  Patience patience(poll_before_sleep_);
  void* tag = nullptr;
  bool ok = false;
  while (!threads.MayLeave() && Next(&patience, &tag, &ok)) {
    static_cast<CompletionEvent*>(tag)->OnCompletion(ok);
  }
}

bool CompletionPoller::Next(Patience* patience, void** tag, bool* ok) {
  auto status = grpc::CompletionQueue::TIMEOUT;
  wait_.Await(
      patience,
      [&] {
        status = queue_->AsyncNext(tag, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
        return status != grpc::CompletionQueue::TIMEOUT;
      },
      [&] {
        status = queue_->Next(tag, ok) ? grpc::CompletionQueue::GOT_EVENT : grpc::CompletionQueue::SHUTDOWN;
      });
  return status == grpc::CompletionQueue::GOT_EVENT;
}

}  // namespace weir
