#include "distributed/collectives/peer_group.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/cluster_spec.h"
#include "distributed/membership.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/task_name.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "distributed/transport/transport.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

constexpr int kSize = 3;
// Of ranks 1 and 2, which nobody grants.
constexpr Incarnation kFirstLife = 5, kSecondLife = 6;

TaskName TaskOf(int rank) { return {"worker", rank}; }

// A task as far as its group needs it: nobody says that it lives, and nobody finds it lost, but the test.
class Rank {
 public:
  Rank(Transport& transport, const ClusterSpec& cluster, int rank, Incarnation life)
      : membership_({.self = TaskOf(rank), .cluster = cluster, .lease = absl::Hours(1)}),
        peers_(cluster, transport, membership_),
        group_({TaskOf(0), TaskOf(1), TaskOf(2)}, {"a", "b", "c"}, peers_) {
    if (rank > 0) {
      membership_.SetIncarnation(life);
      membership_.OnHeartbeatAnswered(membership_.environment().SteadyNow());
    }
    membership_.AddLossListener([this](const TaskName& task, Incarnation lost, const absl::Status& reason) {
      peers_.OnLoss(task, lost, reason);
      group_.OnLoss(task, lost, reason);
    });
    listener_ = transport
                    .Listen(cluster.address(TaskOf(rank)).value(),
                            [this](std::shared_ptr<IncomingCall> call) { group_.Handle(std::move(call)); })
                    .value();
  }
  ~Rank() {
    listener_->Shutdown();
    peers_.ShutdownAndWait();
  }

  Membership& membership() { return membership_; }
  PeerGroup& group() { return group_; }
  uint64_t generation() const { return group_.ranks()->generation(); }

 private:
  Membership membership_;
  Peers peers_;
  PeerGroup group_;
  std::unique_ptr<Listener> listener_;
};

struct PeerGroupTest : ::testing::Test {
  PeerGroupTest() {
    for (int rank = 0; rank < kSize; ++rank) {
      EXPECT_TRUE(cluster.AddTask(TaskOf(rank), absl::StrCat("127.0.0.1:", 5000 + rank)).ok());
    }
    for (int rank = 0; rank < kSize; ++rank) Start(rank, kFirstLife);
  }
  void Start(int rank, Incarnation life) {
    ranks[rank].reset();
    ranks[rank] = std::make_unique<Rank>(*transport, cluster, rank, life);
  }
  // True when all are in the same generation then.
  bool Form() {
    std::vector<std::thread> threads;
    for (const auto& rank : ranks) {
      threads.emplace_back([&] {
        const absl::Status formed =
            static_cast<CollectiveGroup&>(rank->group()).Form(absl::Now() + absl::Minutes(1));
        EXPECT_TRUE(formed.ok()) << formed;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return AreTogether();
  }
  bool AreTogether() const {
    const uint64_t first = ranks[0]->generation();
    return first != 0 && ranks[1]->generation() == first && ranks[2]->generation() == first;
  }

  ClusterSpec cluster;
  const std::unique_ptr<Transport> transport = MakeInprocTransport(MakeInprocNetwork());
  std::unique_ptr<Rank> ranks[kSize];
};

// Rank 0 hears of a rank's new life before rank 1 does. That ended the group that had just been formed, and
// all formed it again.
TEST_F(PeerGroupTest, AnEarlierLifeOfARankThatIsLostDoesNotEndTheGroup) {
  ASSERT_TRUE(Form());
  ASSERT_TRUE(ranks[1]->membership().OnSignOfLife(TaskOf(2), kFirstLife).ok());
  Start(2, kSecondLife);
  ASSERT_TRUE(Form());
  // Its first message to rank 1.
  ASSERT_TRUE(ranks[1]->membership().OnSignOfLife(TaskOf(2), kSecondLife).ok());
  EXPECT_TRUE(AreTogether());
  // On other threads, what they have heard may be reported later.
  for (const int other : {0, 1}) {
    ranks[other]->group().OnLoss(TaskOf(2), kFirstLife, absl::UnavailableError("it restarted"));
    EXPECT_TRUE(AreTogether()) << "rank " << other;
  }
  // The life that is in the group does end it.
  ranks[1]->group().OnLoss(TaskOf(2), kSecondLife, absl::UnavailableError("it was killed"));
  EXPECT_EQ(ranks[1]->generation(), 0u);
}

// What rank 0 itself has said was lost, and the rank waited for half an hour.
TEST_F(PeerGroupTest, ARankThatIsDoneNeedNotHearFromRank0ItselfThatItIsDoneToo) {
  ASSERT_TRUE(Form());
  absl::Status finished;
  std::thread rank1([&] {
    finished = static_cast<CollectiveGroup&>(ranks[1]->group()).Finish(absl::Now() + absl::Seconds(20), [] {
      return false;
    });
  });
  EXPECT_TRUE(ranks[1]->membership().OnDone(TaskOf(0), ranks[0]->membership().incarnation()).ok());
  rank1.join();
  EXPECT_TRUE(finished.ok()) << finished;
}

// A rank's question for the group, which the test brings to rank 0, and its answer.
class Question final : public IncomingCall {
 public:
  Question(int rank, Incarnation life, uint64_t attempt) {
    WireWriter writer;
    Envelope{TaskOf(rank), life}.EncodeTo(&writer);
    writer.Fixed64(attempt);
    writer.Unsigned(kSize);
    request_.header = writer.Take();
  }
  const std::string& method() const override { return method_; }
  Frame& request() override { return request_; }
  absl::Time deadline() const override { return absl::InfiniteFuture(); }
  std::string client() const override { return "test"; }
  void Compute(absl::AnyInvocable<void()> work) override { work(); }
  void Reply(absl::StatusOr<Frame>) override { is_answered_ = true; }
  void OnCancel(std::function<void()>) override {}
  bool is_answered() const { return is_answered_; }

 private:
  const std::string method_ = "/weir.Collective/Form";
  Frame request_;
  std::atomic<bool> is_answered_ = false;
};

// A rank asks again while rank 0 begins the generation: its connection broke, or it begins anew. Nobody
// looked at its question, and it waited, and so did the others in their first collective.
TEST_F(PeerGroupTest, ARankThatAsksAgainWhileTheGroupBeginsIsAnswered) {
  constexpr int kRounds = 3000;
  PeerGroup& first = ranks[0]->group();
  const auto spin = [](int turns) {
    for (std::atomic<int> i = 0; i < turns;) ++i;
  };
  int num_ended = 0;
  for (int round = 0; round < kRounds; ++round) {
    const bool is_anew = round % 2 == 1;
    const uint64_t attempt = 10 * static_cast<uint64_t>(round);
    std::thread former([&first] {
      const absl::Status formed = static_cast<CollectiveGroup&>(first).Form(absl::Now() + absl::Minutes(1));
      EXPECT_TRUE(formed.ok()) << formed;
    });
    first.Handle(std::make_shared<Question>(1, kFirstLife, attempt));
    const auto again = std::make_shared<Question>(1, kFirstLife, is_anew ? attempt + 1 : attempt);
    const auto last = std::make_shared<Question>(2, kFirstLife, attempt);
    absl::SleepFor(absl::Microseconds(100));
    std::atomic<bool> goes = false;
    std::thread asker([&] {
      while (!goes) {
      }
      spin(round % 1000);
      first.Handle(again);
    });
    goes = true;
    spin(500);
    first.Handle(last);
    asker.join();
    former.join();
    const bool has_ended = ranks[0]->generation() == 0;
    ASSERT_TRUE(again->is_answered() || (is_anew && has_ended)) << "round " << round;
    num_ended += has_ended;
  }
  EXPECT_LE(num_ended, kRounds / 2) << "the same question gets the same answer";
}

}  // namespace
}  // namespace weir
