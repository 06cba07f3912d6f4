#include "session/monitored/termination.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

// What the handler may touch: a signal belongs to the process, and so does this.
std::atomic<bool> signal_has_come{false};
std::atomic<int> signal_pipe{-1};
std::atomic<pid_t> pipe_owner{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<pid_t>::is_always_lock_free);

extern "C" void NoteSignal(int signal_number) {
  const int saved_errno = errno;
  if (getpid() != pipe_owner.load()) {
    // A forked child has the pipe of its parent. This handler is installed for one signal, so the next one
    // does what it does by default: end the process, as soon as the handler returns.
    kill(getpid(), signal_number);
    return;
  }
  signal_has_come.store(true);
  // A full pipe holds a byte that will be read.
  [[maybe_unused]] const ssize_t written = write(signal_pipe.load(), "", 1);
  errno = saved_errno;
}

}  // namespace

// Installs the handler while any Termination lives. The pipe and the thread that reads it stay from the first
// one on: a handler may still be about to write when the last one goes.
class SignalThread {
 public:
  static SignalThread& OfProcess() {
    static SignalThread* const thread =
        new SignalThread;  // never destroyed: the handler may run until the end
    return *thread;
  }

  absl::Status Add(Termination* object) {
    absl::MutexLock lock(&mutex_);
    if (objects_.empty()) {
      if (absl::Status status = StartLocked(); !status.ok()) return status;
    }
    objects_.push_back(object);
    return absl::OkStatus();
  }

  void Remove(Termination* object) {
    absl::MutexLock lock(&mutex_);
    const auto place = std::find(objects_.begin(), objects_.end(), object);
    if (place == objects_.end()) return;
    objects_.erase(place);
    if (objects_.empty() && std::exchange(is_installed_, false)) Restore();
  }

 private:
  absl::Status StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (signal_pipe.load() < 0) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe for SIGTERM");
      fcntl(ends[1], F_SETFL, O_NONBLOCK);  // a handler must not wait
      absl::StatusOr<std::thread> listener =
          StartSystemThread([this, read_end = ends[0]] { Listen(read_end); });
      if (!listener.ok()) {
        close(ends[0]);
        close(ends[1]);
        return absl::Status(listener.status().code(),
                            absl::StrCat("no thread that waits for SIGTERM: ", listener.status().message()));
      }
      listener->detach();
      pipe_owner.store(getpid());
      signal_pipe.store(ends[1]);
    }
    // The first signal was the last one that does not end the process.
    if (signal_has_come.load()) return absl::OkStatus();
    if (sigaction(SIGTERM, nullptr, &before_) != 0 || (before_.sa_flags & SA_SIGINFO) != 0 ||
        before_.sa_handler != SIG_DFL) {
      return absl::OkStatus();  // the program's own
    }
    struct sigaction action = {};
    action.sa_handler = NoteSignal;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    is_installed_ = sigaction(SIGTERM, &action, nullptr) == 0;
    return absl::OkStatus();
  }

  // Unless the program has installed a handler of its own meanwhile.
  void Restore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    struct sigaction now;
    const bool is_ours = sigaction(SIGTERM, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
                         now.sa_handler == NoteSignal;
    if (is_ours) sigaction(SIGTERM, &before_, nullptr);
  }

  void Listen(int read_end) {
    char byte = 0;
    while (true) {
      const ssize_t num_read = read(read_end, &byte, 1);
      if (num_read < 0 && errno == EINTR) continue;
      if (num_read <= 0) return;
      absl::MutexLock lock(&mutex_);
      for (Termination* object : objects_) object->on_signal_();
    }
  }

  absl::Mutex mutex_;
  std::vector<Termination*> objects_ ABSL_GUARDED_BY(mutex_);
  struct sigaction before_ ABSL_GUARDED_BY(mutex_) = {};
  bool is_installed_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<Termination>> Termination::Watch(std::function<void()> on_signal) {
  std::unique_ptr<Termination> object(new Termination(std::move(on_signal)));
  if (absl::Status status = SignalThread::OfProcess().Add(object.get()); !status.ok()) return status;
  return object;
}

Termination::~Termination() { SignalThread::OfProcess().Remove(this); }

bool Termination::IsRequested() { return signal_has_come.load(); }

}  // namespace weir
