#include "distributed/master/open_work.h"

#include "absl/strings/str_cat.h"

namespace weir {

std::shared_ptr<OpenWork::Share> OpenWork::Begin() {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return nullptr;
  ++num_open_;
  return std::make_shared<Share>(this);
}

absl::Status OpenWork::Wait(absl::AnyInvocable<void()> work) {
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return absl::UnavailableError("the server is shutting down");
    if (num_waiting_ >= kMaxWaiting) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "this server has ", kMaxWaiting,
          " requests of clients under way that wait for other tasks, or compile; try again later"));
    }
    ++num_waiting_;
    ++num_open_;
  }
  const auto end = [this] {
    absl::MutexLock lock(&mutex_);
    --num_waiting_;
    --num_open_;
  };
  const absl::Status begun = threads_.Block([work = std::move(work), end]() mutable {
    work();
    work = nullptr;  // what it holds goes before the master may
    end();
  });
  if (!begun.ok()) end();
  return begun;
}

void OpenWork::End() {
  absl::MutexLock lock(&mutex_);
  --num_open_;
}

void OpenWork::Close() {
  absl::MutexLock lock(&mutex_);
  is_closed_ = true;
}

bool OpenWork::is_closed() const {
  absl::MutexLock lock(&mutex_);
  return is_closed_;
}

void OpenWork::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  environment_.Await(mutex_, absl::Condition(
                                 +[](int* num_open) { return *num_open == 0; }, &num_open_));
}

}  // namespace weir
