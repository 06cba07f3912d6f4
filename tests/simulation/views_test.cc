// The membership of a large cluster alone, without workers and steps: how many messages it costs, and how
// soon everybody hears of a death.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/membership.h"
#include "distributed/membership_service.h"
#include "distributed/peers/heartbeats.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/probes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"
#include "tests/simulation/simulated_network.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(10);

// One process: what a Server has of membership.
class Task {
 public:
  Task(Scheduler& scheduler, SimulatedNetwork& network, const TaskName& name, const ClusterSpec& cluster,
       std::string process)
      : environment_(scheduler, std::move(process)),
        transport_(network.MakeTransport(environment_)),
        members_({.self = name, .cluster = cluster, .lease = kLease, .environment = &environment_}),
        peers_(cluster, *transport_, members_),
        probes_(peers_),
        service_(members_, peers_, probes_) {
    members_.AddLossListener([this](const TaskName& task, Incarnation life, const absl::Status& why) {
      peers_.OnLoss(task, life, why);
      losses_.push_back({task, environment_.Now(), std::string(why.message())});
    });
    listener_ = transport_
                    ->Listen(cluster.address(name).value(),
                             [this](std::shared_ptr<IncomingCall> call) { service_.Handle(std::move(call)); })
                    .value();
    heartbeats_ = std::make_unique<Heartbeats>(peers_, probes_, kLease / 5);
  }
  ~Task() {
    heartbeats_.reset();
    service_.Shutdown();
    listener_->Shutdown();
    peers_.Shutdown();
  }

  struct Loss {
    TaskName task;
    absl::Time when;
    std::string why;
  };
  const std::vector<Loss>& losses() const { return losses_; }
  Membership& members() { return members_; }
  Peers& peers() { return peers_; }
  int64_t num_requests() const { return service_.num_requests(); }
  Scheduler::Process& process() { return environment_.process(); }

 private:
  SimulatedEnvironment environment_;
  std::unique_ptr<Transport> transport_;
  Membership members_;
  Peers peers_;
  Probes probes_;
  MembershipService service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Heartbeats> heartbeats_;
  std::vector<Loss> losses_;
};

class Cluster {
 public:
  Cluster(uint64_t seed, int num_ps, int num_workers) : scheduler_(seed), network_(scheduler_, {}) {
    for (int i = 0; i < num_ps; ++i) names_.push_back({"ps", i});
    for (int i = 0; i < num_workers; ++i) names_.push_back({"worker", i});
    for (size_t i = 0; i < names_.size(); ++i) {
      cluster_.AddTask(names_[i], absl::StrCat("10.0.0.1:", 5000 + i)).IgnoreError();
    }
    for (size_t i = 0; i < names_.size(); ++i) Start(i);
  }
  ~Cluster() {
    for (const auto& task : tasks_) task->process().is_paused = false;
    network_.Close();
    tasks_.clear();
  }

  // Also again, when its process is gone.
  void Start(size_t index) {
    tasks_.push_back(std::make_unique<Task>(scheduler_, network_, names_[index], cluster_,
                                            absl::StrCat(names_[index].ToString(), " ", tasks_.size())));
    if (newest_.size() <= index) newest_.resize(index + 1);
    newest_[index] = tasks_.back().get();
  }
  void Kill(size_t index) {
    newest_[index]->process().is_paused = true;
    network_.Kill(newest_[index]->process());
  }
  void Stop(size_t index) { newest_[index]->process().is_paused = true; }

  Scheduler& scheduler() { return scheduler_; }
  SimulatedNetwork& network() { return network_; }
  Task& task(size_t index) { return *newest_[index]; }
  size_t size() const { return names_.size(); }
  const TaskName& name(size_t index) const { return names_[index]; }
  int64_t num_requests() const {
    int64_t sum = 0;
    for (const auto& task : tasks_) sum += task->num_requests();
    return sum;
  }
  // The longest that anybody who runs took to hear of the loss; infinite if one has not.
  absl::Duration HeardEverywhere(size_t lost, absl::Time since) {
    absl::Duration longest;
    for (size_t i = 0; i < size(); ++i) {
      if (i == lost || task(i).process().is_paused) continue;
      absl::Duration heard = absl::InfiniteDuration();
      for (const Task::Loss& loss : task(i).losses()) {
        if (loss.task == names_[lost] && loss.when >= since) heard = std::min(heard, loss.when - since);
      }
      longest = std::max(longest, heard);
    }
    return longest;
  }

 private:
  Scheduler scheduler_;
  SimulatedNetwork network_;
  ClusterSpec cluster_;
  std::vector<TaskName> names_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<Task*> newest_;
};

TEST(ViewsTest, AThousandWorkersAndAHundredPsSendOneHeartbeatEach) {
  Cluster cluster(1, 100, 1000);
  cluster.scheduler().RunFor(absl::Seconds(8));
  for (size_t i = 1; i < cluster.size(); ++i) {
    const size_t other = i + 1 < cluster.size() ? i + 1 : 1;
    ASSERT_EQ(cluster.task(i).members().state(cluster.name(other)), MemberState::kAlive) << i;
  }
  const int64_t before = cluster.num_requests();
  constexpr int kSeconds = 20;
  cluster.scheduler().RunFor(absl::Seconds(kSeconds));
  const double per_second = static_cast<double>(cluster.num_requests() - before) / kSeconds;
  std::printf("%.0f requests per second, %.2f per task and heartbeat interval\n", per_second,
              per_second / (static_cast<double>(cluster.size()) / 2));
  EXPECT_LE(per_second, 1.2 * static_cast<double>(cluster.size()) / 2);
  const size_t killed = 900;
  cluster.Kill(killed);
  const absl::Time died = cluster.scheduler().now();
  cluster.scheduler().RunFor(absl::Seconds(2));
  const absl::Duration noticed = cluster.HeardEverywhere(killed, died);
  std::printf("a process that was killed: everybody knows after %s\n", absl::FormatDuration(noticed).c_str());
  EXPECT_LE(noticed, absl::Seconds(1));
  EXPECT_EQ(cluster.task(1).losses()[0].why,
            "worker:800 was lost: its process is gone: 10.0.0.1:5900 refuses connections");
  const size_t silent = 700;
  cluster.Stop(silent);
  const absl::Time stopped = cluster.scheduler().now();
  cluster.scheduler().RunFor(absl::Seconds(13));
  const absl::Duration heard = cluster.HeardEverywhere(silent, stopped);
  std::printf("a process that was stopped: everybody knows after %s\n", absl::FormatDuration(heard).c_str());
  // Its lease, and what the authority needs to look for leases that ran out.
  EXPECT_LE(heard, kLease * 6 / 5 + absl::Milliseconds(200));
}

// Each cannot reach the other, but the authority reaches both.
TEST(ViewsTest, NobodyIsLostBecauseALinkIsBroken) {
  Cluster cluster(1, 2, 3);
  cluster.scheduler().RunFor(absl::Seconds(5));
  cluster.network().Flap(cluster.task(2).process(), cluster.task(1).process());
  absl::Status status;
  cluster.task(2).peers().Call({"ps", 1}, kListDevicesMethod, "", {}, {.names_link = true},
                               [&](const absl::StatusOr<PeerReply>& reply) { status = reply.status(); });
  cluster.scheduler().RunFor(absl::Seconds(30));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("(ps:0 reaches it: the link worker:0 -> ps:1 is broken)"));
  for (size_t i = 0; i < cluster.size(); ++i) EXPECT_TRUE(cluster.task(i).losses().empty());
  // The authority's own.
  cluster.network().Flap(cluster.task(0).process(), cluster.task(1).process());
  status = absl::OkStatus();
  cluster.task(0).peers().Call({"ps", 1}, kListDevicesMethod, "", {}, {.names_link = true},
                               [&](const absl::StatusOr<PeerReply>& reply) { status = reply.status(); });
  cluster.scheduler().RunFor(absl::Seconds(5));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("(ps:0 still hears from it: the link ps:0 -> ps:1 is broken)"));
}

TEST(ViewsTest, NobodyIsLostBecauseTheAuthorityWasKilled) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Cluster cluster(seed, 3, 20);
    cluster.scheduler().RunFor(absl::Seconds(15));
    cluster.Kill(0);
    cluster.scheduler().RunFor(absl::Seconds(30));
    cluster.Start(0);
    cluster.scheduler().RunFor(absl::Seconds(40));
    for (size_t i = 1; i < cluster.size(); ++i) {
      for (const Task::Loss& loss : cluster.task(i).losses()) {
        EXPECT_EQ(loss.task, (TaskName{"ps", 0})) << cluster.name(i).ToString() << ": " << loss.why;
      }
      // That it was gone, and then that it has a successor.
      EXPECT_EQ(cluster.task(i).losses().size(), 2u) << cluster.name(i).ToString();
      EXPECT_EQ(cluster.task(i).members().view(), cluster.task(0).members().view());
      EXPECT_TRUE(cluster.task(i).members().HoldsLease());
    }
    EXPECT_TRUE(cluster.task(0).losses().empty());
  }
}

}  // namespace
}  // namespace weir
