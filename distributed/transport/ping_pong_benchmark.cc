// Round trips and bandwidth of the gRPC transport on loopback, server in a process of its own: one JSON line
// a metric.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/transport/grpc/grpc_transport.h"

namespace weir {
namespace {

void ServeForEver(const std::string& address) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto transport = MakeGrpcTransport({}).value();
  auto listener =
      transport->Listen(address, [](std::shared_ptr<IncomingCall> call) { call->Reply(Frame()); }).value();
  while (true) pause();
}

double MedianMicroseconds(Channel& channel, int num_calls, const Frame& request) {
  std::vector<double> times;
  for (int i = 0; i < num_calls; ++i) {
    const absl::Time start = absl::Now();
    absl::Notification done;
    channel.Call("/weir.Benchmark/Ping", request, {absl::Now() + absl::Seconds(30), true},
                 [&](absl::StatusOr<Frame>) { done.Notify(); });
    done.WaitForNotification();
    times.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void Run(int num_calls) {
  const std::string address = absl::StrCat("127.0.0.1:", FindFreePorts(1).value()[0]);
  const pid_t server = fork();
  if (server == 0) ServeForEver(address);
  auto transport = MakeGrpcTransport({}).value();
  auto channel = transport->Connect({"ps", 0}, address).value();
  Frame ping;
  ping.header = "0123456789abcdef";
  MedianMicroseconds(*channel, num_calls / 10 + 1, ping);
  std::printf("{\"metric\": \"transport_ping\", \"value\": %.1f, \"unit\": \"us\"}\n",
              MedianMicroseconds(*channel, num_calls, ping));
  Tensor tensor(DType::kFloat32, {25 << 20});
  std::fill(tensor.flat<float>().begin(), tensor.flat<float>().end(), 1.0f);
  Frame push;
  push.payloads.push_back(Payload::OfTensor(tensor));
  MedianMicroseconds(*channel, 3, push);
  std::printf("{\"metric\": \"transport_push_100mb\", \"value\": %.1f, \"unit\": \"ms\"}\n",
              MedianMicroseconds(*channel, num_calls / 200 + 1, push) / 1e3);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  weir::Run(argc > 1 ? std::atoi(argv[1]) : 4000);
  return 0;
}
