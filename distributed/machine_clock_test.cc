// Clusters on machines whose clock is set while they train.
#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "distributed/test_gate.h"
#include "distributed/test_server.h"
#include "kernels/set_machine_clock.h"

namespace weir {
namespace {

INSTANTIATE_TEST_SUITE_P(All, ServerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

TEST_P(ServerTest, AClockThatIsSetLosesNobodyAndEndsNoStep) {
  lease_ = absl::Seconds(3);
  OpRegistry ops;
  ASSERT_TRUE(AddPassGate(ops, &options_).ok());
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  std::atomic<int> num_lost{0};
  for (Server* const server : {ps.get(), w0.get()}) {
    server->membership().AddLossListener(
        [&num_lost](const TaskName&, Incarnation, const absl::Status&) { ++num_lost; });
  }
  for (const absl::Duration ahead : {-absl::Hours(1), absl::Hours(1), absl::ZeroDuration()}) {
    Gate gate;
    GraphBuilder g(ops);
    Output passed;
    {
      auto device = g.DeviceScope("/job:ps/task:0");
      passed = g.AddOp("PassGate", {Constant(g, gate.address())});
    }
    ASSERT_TRUE(g.ok()) << g.status();
    auto session = w0->CreateSession(g.graph()).value();
    absl::Status status;
    std::thread step(
        [&] { status = session->Run({}, {passed}, {}, {.timeout = absl::Minutes(2)}).status(); });
    // Its time is not over when the clock says so.
    gate.AwaitCaller();
    SetMachineClock(ahead);
    absl::SleepFor(2 * lease_);
    gate.Open();
    step.join();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(num_lost, 0) << ahead;
    EXPECT_EQ(ps->membership().state({"worker", 0}), Membership::State::kAlive);
    EXPECT_EQ(w0->membership().state({"ps", 0}), Membership::State::kAlive);
  }
}

}  // namespace
}  // namespace weir
