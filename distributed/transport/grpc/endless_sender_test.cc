// A client that has the token, and sends without a pause what costs it nothing.
#include <signal.h>
#include <sys/wait.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/launch/free_ports.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "distributed/transport/grpc/test_attack.h"
#include "distributed/transport/test_calls.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

constexpr int kConnections = 12;

bool EndsWithin(pid_t process, absl::Duration limit) {
  for (const absl::Time end = absl::Now() + limit; absl::Now() < end;
       absl::SleepFor(absl::Milliseconds(10))) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == process) {
      return true;
    }
  }
  return false;
}

// Updates of the connection's window, without a pause: small frames, of which none is kept, so that reading
// them takes far longer than sending them.
[[noreturn]] void SendWithoutPause(int port) {
  constexpr int kWindowUpdate = 8;
  const std::string update = Http2Frame(kWindowUpdate, 0, 0, std::string("\0\0\0\1", 4));
  std::string frames;
  while (frames.size() < 1 << 20) absl::StrAppend(&frames, update);
  while (true) {
    RawConnection sender(port);
    sender.Write(absl::StrCat(Http2Greeting(), Http2Call(1, "/weir.T/E", kToken, /*kept=*/true)));
    while (sender.is_open()) sender.Write(frames);
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// gRPC reads what comes with the thread that gives it the connection, which others wait for, and so would its
// end.
TEST(EndlessSenderTest, HoldsNobodyUp) {
  const ReservedPorts ports = ReservedPorts::Take(1).value();
  const int port = ports[0];
  const ChildProcess server([port] { Serve(port); });
  const ChildProcess sender([port] {
    raise(SIGSTOP);
    std::vector<std::thread> others;
    for (int i = 1; i < kConnections; ++i) others.emplace_back(SendWithoutPause, port);
    SendWithoutPause(port);
  });
  const auto transport = MakeGrpcTransport(WithToken()).value();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const auto call_anew = [&] {
    return CallAndWait(*transport->Connect({"ps", 0}, address).value(), "/weir.T/E", {},
                       Within(absl::Seconds(20)))
        .status();
  };
  const auto is_served_within = [&](absl::Duration limit) {
    const absl::Time end = absl::Now() + limit;
    while (absl::Now() < end) {
      if (call_anew().ok()) return true;
    }
    return false;
  };
  ASSERT_TRUE(is_served_within(absl::Seconds(60))) << "the server does not listen";
  waitpid(sender.pid(), nullptr, WUNTRACED);
  kill(sender.pid(), SIGCONT);
  absl::SleepFor(absl::Seconds(1));
  EXPECT_TRUE(is_served_within(absl::Seconds(60)));
  kill(server.pid(), SIGTERM);
  EXPECT_TRUE(EndsWithin(server.pid(), absl::Seconds(60))) << "it waits for the sender";
}

}  // namespace
}  // namespace weir
