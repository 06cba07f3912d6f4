// The signals that ask a job to stop, and those that say that a child has ended, as readable events.
//
// While it lives they are blocked for this process. One at a time; not thread-safe.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "distributed/launch/child_process.h"

namespace weir {

class SignalQueue {
 public:
  SignalQueue() {
    sigemptyset(&taken_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&taken_, signal);
    sigprocmask(SIG_BLOCK, &taken_, &before_);
    queue_ = FileDescriptor(signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SignalQueue() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  int fd() const { return queue_.get(); }
  // The next signal that asks the job to stop; 0 when there is none left.
  int NextStopSignal() {
    signalfd_siginfo event;
    while (read(queue_.get(), &event, sizeof(event)) == sizeof(event)) {
      if (event.ssi_signo != SIGCHLD) return static_cast<int>(event.ssi_signo);
    }
    return 0;
  }

 private:
  sigset_t taken_;
  sigset_t before_;
  FileDescriptor queue_;
};

}  // namespace weir
