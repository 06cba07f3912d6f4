#include "distributed/election/election.h"

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "distributed/life.h"
#include "distributed/server.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

// Answers when it is told to.
class HeldStore final : public AuthorityStore {
 public:
  void Read(absl::Duration, Then then) override {
    absl::MutexLock lock(&mutex_);
    held_.push_back(std::move(then));
  }
  void Replace(const Stored&, const AuthorityRecord&, absl::Duration timeout, Then then) override {
    Read(timeout, std::move(then));
  }
  void AwaitQuestion() {
    absl::MutexLock lock(&mutex_);
    const auto is_asked = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !held_.empty(); };
    mutex_.Await(absl::Condition(&is_asked));
  }
  void Answer() {
    std::vector<Then> held;
    {
      absl::MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (const Then& then : held) then(absl::CancelledError("too late"));
  }

 private:
  absl::Mutex mutex_;
  std::vector<Then> held_ ABSL_GUARDED_BY(mutex_);
};

// Answers before the call returns.
class PromptStore : public AuthorityStore {
 public:
  explicit PromptStore(std::function<void(const AuthorityRecord&)> on_record, Stored stored = {})
      : on_record_(std::move(on_record)), stored_(std::move(stored)) {}
  void Read(absl::Duration, Then then) override {
    Stored stored;
    {
      absl::MutexLock lock(&mutex_);
      stored = stored_;
      ++num_reads_;
    }
    then(stored);
  }
  // It comes back with nothing.
  void Wipe() {
    absl::MutexLock lock(&mutex_);
    stored_ = Stored();
  }
  void AwaitReads(int how_many) {
    absl::MutexLock lock(&mutex_);
    const auto are_enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_reads_ >= how_many; };
    mutex_.Await(absl::Condition(&are_enough));
  }
  void Replace(const Stored& before, const AuthorityRecord& record, absl::Duration timeout,
               Then then) override {
    {
      absl::MutexLock lock(&mutex_);
      const int64_t next = stored_.store_revision + 1;
      if (before.revision == stored_.revision) stored_ = {next, record, next};
    }
    on_record_(record);
    Read(timeout, std::move(then));
  }

 private:
  const std::function<void(const AuthorityRecord&)> on_record_;
  absl::Mutex mutex_;
  Stored stored_ ABSL_GUARDED_BY(mutex_);
  int num_reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What one task has of a store: until it is cut off.
class Link final : public AuthorityStore {
 public:
  explicit Link(AuthorityStore& store) : store_(store) {}
  void Cut() { is_cut_ = true; }
  void Read(absl::Duration timeout, Then then) override {
    if (is_cut_) return then(absl::UnavailableError("cut off"));
    store_.Read(timeout, std::move(then));
  }
  void Replace(const Stored& before, const AuthorityRecord& record, absl::Duration timeout,
               Then then) override {
    if (is_cut_) return then(absl::UnavailableError("cut off"));
    store_.Replace(before, record, timeout, std::move(then));
  }

 private:
  AuthorityStore& store_;
  std::atomic<bool> is_cut_ = false;
};

struct ElectionTest : ::testing::Test {
  ElectionTest() {
    EXPECT_TRUE(cluster.AddTask({"ps", 0}, "127.0.0.1:4711").ok());
    EXPECT_TRUE(cluster.AddTask({"worker", 0}, "127.0.0.1:4712").ok());
    options.transport = transport.get();
    options.lease = absl::Milliseconds(500);
    options.num_threads = 1;
  }
  std::unique_ptr<Server> Start(AuthorityStore& store, const TaskName& task = {"ps", 0}) {
    options.election_store = &store;
    return Server::Start(TaskConfig::Create(cluster, task).value(), options).value();
  }
  static bool Eventually(const std::function<bool()>& holds) {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (!holds()) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return true;
  }

  ClusterSpec cluster;
  std::unique_ptr<Transport> transport = MakeInprocTransport(MakeInprocNetwork());
  ServerOptions options;
};

// etcd was stopped before the job ended.
TEST_F(ElectionTest, AnAnswerMayComeWhenTheServerIsGone) {
  HeldStore store;
  for (int i = 0; i < 20; ++i) {
    std::unique_ptr<Server> server = Start(store);
    store.AwaitQuestion();
    server.reset();
    store.Answer();
  }
}

// A record of the last term, as a task with a wrong clock or a stranger may have written it.
TEST_F(ElectionTest, NoOfficeHasATermThatLeavesNoRoomForLives) {
  for (const uint64_t first : {kLastTerm - 6, kLastTerm}) {
    std::atomic<uint64_t> greatest = 0;
    PromptStore store(
        [&](const AuthorityRecord& record) {
          if (record.term > greatest) greatest = record.term;
        },
        {.revision = 1,
         .record = {.term = first, .task = {"worker", 0}, .candidate = 7},
         .store_revision = 1});
    const std::unique_ptr<Server> server = Start(store);
    // On a busy machine it may have lost it again when it is asked a second time.
    const auto is_in_office = [&] { return server->membership().HoldsOffice(); };
    if (first < kLastTerm) {
      EXPECT_TRUE(Eventually(is_in_office));
    } else {
      // The office is vacant a lease after the record was read. Then nothing is asked: what must not come
      // cannot be waited for.
      store.AwaitReads(1);
      absl::SleepFor(4 * options.lease);
      EXPECT_FALSE(is_in_office());
    }
    EXPECT_LE(greatest, kLastTerm);
  }
}

// It has lost its record, and the one that was in office is so again in a later one. The worker, which cannot
// read the store or reads it too late, hears of that from its answers.
TEST_F(ElectionTest, WhoIsAnsweredInALaterOfficeKnowsIt) {
  options.lease = absl::Seconds(3);
  PromptStore store([](const AuthorityRecord&) {});
  Link link(store);
  const std::unique_ptr<Server> ps = Start(store), worker = Start(link, {"worker", 0});
  const Membership& members = worker->membership();
  ASSERT_TRUE(Eventually([&] { return members.incarnation() != 0 && members.HoldsLease(); }));
  const Incarnation life = members.incarnation(), office = members.office();
  ASSERT_EQ(office, ps->membership().office());
  link.Cut();
  store.Wipe();
  ASSERT_TRUE(Eventually([&] {
    return ps->membership().HoldsOffice() && ps->membership().office() > office && members.HoldsLease();
  }));
  EXPECT_TRUE(Eventually([&] { return members.office() == ps->membership().office(); }))
      << LifeString(members.office()) << ", while the ps is in office "
      << LifeString(ps->membership().office());
  EXPECT_EQ(members.incarnation(), life) << "it goes on in its life";
}

// When the store has the record of its end, another task may be in office.
TEST_F(ElectionTest, WhoResignsHasLeftOfficeBefore) {
  options.lease = absl::Seconds(5);  // only who is in office resigns
  std::unique_ptr<Server> server;
  std::atomic<bool> has_ended = false, was_in_office = false;
  PromptStore store([&](const AuthorityRecord& record) {
    if (!record.has_ended) return;
    has_ended = true;
    was_in_office = server->membership().HoldsOffice();
  });
  server = Start(store);
  ASSERT_TRUE(Eventually([&] { return server->membership().HoldsOffice(); }));
  server->Shutdown();
  EXPECT_TRUE(has_ended);
  EXPECT_FALSE(was_in_office);
}

}  // namespace
}  // namespace weir
