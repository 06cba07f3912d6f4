// For tests of what a client that has the token can do to a server: processes of their own for both, because
// gRPC's threads serve all connections of a process, also those that the test calls through. Fork them before
// the test's own process has threads of gRPC.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/test_calls.h"

namespace weir {

inline constexpr char kToken[] = "0123456789abcdef";

inline GrpcOptions WithToken() {
  GrpcOptions options;
  options.security.token = kToken;
  options.keepalive_timeout = absl::Minutes(1);  // on a busy machine a connection may be silent for long
  return options;
}

class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void()>& run) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // should the test crash
    run();
    while (true) pause();
  }
  ~ChildProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

// Until SIGTERM; then the process ends when the listener has.
inline void Serve(int port) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  const auto transport = MakeGrpcTransport(WithToken()).value();
  auto listener = transport->Listen(absl::StrCat("127.0.0.1:", port), Echo).value();
  int signal = 0;
  sigwait(&end, &signal);
  listener = nullptr;
  _exit(0);
}

}  // namespace weir
