// What a master has under way: calls that are not answered, and works that wait for other tasks. Works run on
// the threads that may block, of which they take some at most.
//
// Thread safety: all methods. Borrows both. A Share may be let go by any thread, before this object goes.
#pragma once

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/environment.h"
#include "kernels/threads.h"

namespace weir {

class OpenWork {
 public:
  static constexpr int kMaxWaiting = 64;  // works

  OpenWork(Environment& environment, Threads& threads) : environment_(environment), threads_(threads) {}
  // Precondition: AwaitEnd.
  ~OpenWork() = default;

  // Counts until it is destroyed.
  class Share {
   public:
    explicit Share(OpenWork* work) : work_(work) {}
    ~Share() { work_->End(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    OpenWork* const work_;
  };

  // Null once it was closed.
  std::shared_ptr<Share> Begin();

  // Runs `work`, which may wait, on another thread. ResourceExhausted when too many wait; then it is dropped.
  // Unavailable once it was closed.
  absl::Status Wait(absl::AnyInvocable<void()> work);

  // Nothing begins any more.
  void Close();
  bool is_closed() const;
  // Waits for what is under way. After Close.
  void AwaitEnd();

 private:
  void End();

  Environment& environment_;
  Threads& threads_;
  mutable absl::Mutex mutex_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  int num_open_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
