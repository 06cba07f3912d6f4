#include "kernels/serial_thread.h"

#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/system_thread.h"

namespace weir {

SerialThread::~SerialThread() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    is_ending_ = true;
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

absl::Status SerialThread::Add(Work work) {
  absl::MutexLock lock(&mutex_);
  if (!thread_.joinable()) {
    WEIR_ASSIGN_OR_RETURN(thread_, StartSystemThread([this] { Run(); }));
  }
  work_.push_back(std::move(work));
  ++num_added_;
  return absl::OkStatus();
}

void SerialThread::AwaitAll() {
  absl::MutexLock lock(&mutex_);
  const int64_t wanted = num_added_;
  const auto have_run = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_run_ >= wanted; };
  mutex_.Await(absl::Condition(&have_run));
}

void SerialThread::Run() {
  const auto has_something_to_do = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !work_.empty() || is_ending_;
  };
  while (true) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_something_to_do));
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
    work = nullptr;  // lets go of what it keeps before it counts as run
    absl::MutexLock lock(&mutex_);
    ++num_run_;
  }
}

}  // namespace weir
