// The time that graphs see: the clock of their environment, asked anew in every step.
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/environment.h"
#include "kernels/simulation/simulated_environment.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

// A process whose only step is to ask what time it is.
class Asker {
 public:
  explicit Asker(Environment& environment)
      : runtime_(Runtime::Create({.environment = &environment}).value()),
        worker_(*runtime_, runtime_->task()),
        g_(runtime_->ops()),
        time_(g_.AddOp("Timestamp", {})),
        session_(Session::Create(g_.graph(), {&worker_}, runtime_->kernels(), {.environment = &environment})
                     .value()) {}

  double Ask() { return session_->Run({}, {time_}).value()[0].scalar<double>(); }

 private:
  const std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  GraphBuilder g_;
  const Output time_;
  const std::unique_ptr<Session> session_;
};

TEST(TimestampTest, IsTheMachinesTime) {
  Asker asker(RealEnvironment());
  const auto now = [] { return static_cast<double>(absl::ToUnixMicros(absl::Now())) / 1e6; };
  const double before = now(), first = asker.Ask(), between = now(), second = asker.Ask(), after = now();
  EXPECT_LE(before, first);
  EXPECT_LE(first, between);
  EXPECT_LE(between, second);
  EXPECT_LE(second, after);
}

TEST(TimestampTest, IsSimulatedWhereClocksAre) {
  Scheduler scheduler(1);
  SimulatedEnvironment environment(scheduler, "worker");
  Asker asker(environment);
  const double first = asker.Ask();
  EXPECT_EQ(first, static_cast<double>(absl::ToUnixMicros(environment.TimeOfDay())) / 1e6);
  scheduler.AddEvent(environment.process(), scheduler.now() + absl::Seconds(90), [] {});
  while (scheduler.RunNext()) {
  }
  EXPECT_EQ(asker.Ask(), first + 90);
}

}  // namespace
}  // namespace weir
