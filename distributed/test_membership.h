// What tests of Membership begin with: a ps, and a second one that follows the first one's views, in a
// simulated time.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "distributed/membership.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"

namespace weir {

inline const TaskName kPs{"ps", 0};
inline const TaskName kW0{"worker", 0};
inline const TaskName kW1{"worker", 1};

struct MembershipTest : ::testing::Test {
  Scheduler scheduler{1};
  SimulatedEnvironment environment{scheduler, "ps"};
  Membership members{
      {kPs, ClusterSpec::FromFlag("ps|h:1,worker|h:2;h:3").value(), absl::Seconds(10), &environment}};
  std::vector<std::string> losses;

  MembershipTest() {
    members.AddLossListener([this](const TaskName&, Incarnation, const absl::Status& reason) {
      losses.push_back(std::string(reason.message()));
    });
  }
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      scheduler.RunFor(absl::Seconds(1));
      members.CheckLeases();
    }
  }
  bool HasEnded() { return members.AwaitEndOfJob(scheduler.now()); }
};

// A ps that is not the authority, and what the authority tells it.
struct ViewTest : MembershipTest {
  static constexpr char kSpec[] = "ps|h:1;h:4,worker|h:2;h:3";
  SimulatedEnvironment ps1_environment{scheduler, "ps:1"};
  Membership authority{{kPs, ClusterSpec::FromFlag(kSpec).value(), absl::Seconds(10), &environment}};
  Membership ps1{{{"ps", 1}, ClusterSpec::FromFlag(kSpec).value(), absl::Seconds(10), &ps1_environment}};
  std::vector<std::string> ps1_losses, ps1_done;

  ViewTest() {
    ps1.SetIncarnation(authority.incarnation() + 1);
    authority.OnGranted(ps1.incarnation());
    ps1.AddLossListener([this](const TaskName&, Incarnation, const absl::Status& reason) {
      ps1_losses.push_back(std::string(reason.message()));
    });
    ps1.AddDoneListener([this](const TaskName& task, Incarnation) { ps1_done.push_back(task.ToString()); });
  }
  // A heartbeat of ps 1 that `from` answers, as it does every fifth of a lease.
  void Beat(Membership& from) {
    ASSERT_TRUE(from.OnSignOfLife({"ps", 1}, ps1.incarnation()).ok());
    ASSERT_TRUE(ps1.OnSignOfLife(kPs, from.incarnation()).ok());
    ps1.OnHeartbeatAnswered(scheduler.now());
    ps1.ApplyView(from.ViewSince(ps1.view()), from.self());
  }
  void PassWith(Membership* from, int seconds) {
    for (int i = 0; i < seconds; i += 2) {
      if (from != nullptr) Beat(*from);
      scheduler.RunFor(absl::Seconds(2));
      if (from != nullptr) from->CheckLeases();
      ps1.CheckLeases();
    }
  }
};

}  // namespace weir
