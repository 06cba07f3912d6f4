// Guests: workers that the cluster spec does not name (membership_guests.cc).
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distributed/test_membership.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using State = Membership::State;

// An authority that lets guests in, while fewer than four tasks train.
struct GuestTest : ViewTest {
  const TaskName w2{"worker", 2}, w3{"worker", 3}, w4{"worker", 4}, w5{"worker", 5};
  Membership host{{.self = kPs,
                   .cluster = ClusterSpec::FromFlag(kSpec).value(),
                   .lease = absl::Seconds(10),
                   .environment = &environment,
                   .max_workers = 4}};
  Incarnation next_life = host.incarnation() + 100;

  // It has found out who is there.
  GuestTest() { PassOf(host, 11, {}); }
  // Those send signs of life meanwhile.
  void PassOf(Membership& to, int seconds, const std::map<TaskName, Incarnation>& alive) {
    for (int i = 0; i < seconds; ++i) {
      scheduler.RunFor(absl::Seconds(1));
      for (const auto& [task, life] : alive) EXPECT_TRUE(to.OnSignOfLife(task, life).ok());
      to.CheckLeases();
    }
  }
  absl::Status Ask(const TaskName& task, const std::string& address) {
    return host.AdmitTask(task, 0, address);
  }
  // Joins and shows its life.
  Incarnation Enter(const TaskName& task, const std::string& address) {
    EXPECT_TRUE(Ask(task, address).ok()) << Ask(task, address);
    host.OnGranted(task, ++next_life, address);
    EXPECT_TRUE(host.OnSignOfLife(task, next_life).ok());
    return next_life;
  }
  std::string Refusal(const TaskName& task, const std::string& address) {
    return std::string(Ask(task, address).message());
  }
};

TEST_F(GuestTest, OnlyWhereItIsAllowedOnlyWorkersAndFromAddressesOfTheirOwn) {
  EXPECT_THAT(std::string(authority.AdmitTask(w2, 0, "h:9").message()),
              HasSubstr("worker:2 is no task of the cluster of ps:0: the tasks were given different cluster "
                        "specs, and without WEIR_MAX_WORKERS none"));
  EXPECT_TRUE(authority.AdmitTask(kW1, 0, "elsewhere:1").ok()) << "that of the cluster spec counts";
  EXPECT_THAT(Refusal({"ps", 2}, "h:9"), HasSubstr("only a worker can"));
  EXPECT_THAT(Refusal({"chief", 0}, "h:9"), HasSubstr("only a worker can"));
  EXPECT_THAT(Refusal({"worker", -1}, "h:9"), HasSubstr("the task index must be in"));
  EXPECT_THAT(Refusal(w2, ""), HasSubstr("has no port"));
  EXPECT_THAT(Refusal(w2, "h:0"), HasSubstr("without a port"));
  EXPECT_THAT(Refusal(w2, "h;rm:1"), HasSubstr("cannot be in a host name"));
  EXPECT_THAT(Refusal(w2, std::string(1000, 'h') + ":1"), HasSubstr("at most 300"));
  EXPECT_THAT(Refusal(w2, Guests::kNowhere), HasSubstr("has no port"));
  EXPECT_THAT(Refusal(w2, "h:3"), HasSubstr("already belongs to worker:1"));
  EXPECT_THAT(Refusal(w2, "H:03"), HasSubstr("already belongs to worker:1"));
  Enter(w2, "h:9");
  EXPECT_THAT(Refusal(w3, "h:9"), HasSubstr("worker:3 joins from h:9, where worker:2 is"));
  EXPECT_THAT(Refusal(w3, "H:09"), HasSubstr("where worker:2 is"));
  EXPECT_EQ(host.tasks().size(), 5u) << "who was refused leaves nothing";
}

TEST_F(GuestTest, NoMoreThanThereArePlacesFor) {
  // Those of the cluster spec may still come.
  Enter(w2, "h:9");
  ASSERT_TRUE(Ask(w3, "h:10").ok());
  EXPECT_EQ(
      Refusal(w4, "h:11"),
      "the job has 4 tasks that train, or may still come, and may have 4 (WEIR_MAX_WORKERS): worker:4 waits "
      "for one of them to end");
  EXPECT_TRUE(absl::IsResourceExhausted(Ask(w4, "h:11"))) << "it is to ask again";
  EXPECT_TRUE(Ask(w2, "h:9").ok()) << "another process of the same task";
  // One that has asked and does not come keeps its place for a lease.
  Pass(11);
  EXPECT_TRUE(Ask(w4, "h:11").ok());
  // One that leaves has none any more.
  ASSERT_TRUE(host.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(host.OnSignOfLife(kW1, 12).ok());
  const Incarnation life = Enter(w4, "h:11");
  EXPECT_FALSE(Ask(w3, "h:10").ok());
  ASSERT_TRUE(host.OnLeave(w4, life).ok());
  EXPECT_TRUE(Ask(w3, "h:10").ok());
}

TEST_F(GuestTest, AViewTellsTheOthersAtOnceWhereAGuestIs) {
  Beat(host);
  const ViewNumber before = ps1.last_loss();
  int told = 0;
  host.SetViewListener([&] { ++told; });
  ASSERT_TRUE(Ask(w2, "h:9").ok());
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(host.HasNewsFor(before));
  // What it is told with its life, it knows when it sends its first message, which may be faster than the
  // view.
  const ViewNumber first = {host.incarnation(), host.ViewSince({}).last_loss};
  const Incarnation life = ++next_life;
  host.OnGranted(w2, life, "h:9");
  int asked = 0;
  ps1.SetNewsListener([&] { ++asked; });
  const absl::Status refusal = ps1.Admit(w2, life, 0, first);
  EXPECT_TRUE(absl::IsInvalidArgument(refusal));
  EXPECT_TRUE(ps1.MayBeGuest(refusal, w2, first));
  EXPECT_FALSE(ps1.MayBeGuest(refusal, w2, before)) << "nobody has heard of it";
  EXPECT_FALSE(ps1.MayBeGuest(refusal, {"ps", 7}, first));
  EXPECT_EQ(asked, 1);
  Beat(host);
  EXPECT_TRUE(ps1.MayBeGuest(refusal, w2, first)) << "the view has come meanwhile";
  EXPECT_FALSE(ps1.MayBeGuest(absl::FailedPreconditionError("superseded"), w2, first));
  EXPECT_TRUE(ps1.Admit(w2, life, 0, first).ok()) << "also before the authority has heard of that life";
  ASSERT_TRUE(host.OnSignOfLife(w2, life).ok());
  EXPECT_EQ(told, 2);
  Beat(host);
  EXPECT_EQ(ps1.AddressOfGuest(w2), "h:9");
  EXPECT_EQ(ps1.AddressOfGuest(kW0), "");
  // Its next process is somewhere else, and is looked for there from its first message on.
  ASSERT_TRUE(Ask(w2, "h:20").ok());
  host.OnGranted(w2, ++next_life, "h:20");
  EXPECT_EQ(host.AddressOfGuest(w2), "h:9");
  ASSERT_TRUE(host.OnSignOfLife(w2, next_life).ok());
  EXPECT_EQ(host.AddressOfGuest(w2), "h:20");
  Beat(host);
  EXPECT_EQ(ps1.AddressOfGuest(w2), "h:20");
  EXPECT_THAT(ps1_losses, ElementsAre("worker:2 was lost: it restarted"));
}

TEST_F(GuestTest, NobodyIsLookedForWhereAnotherOneIsNow) {
  const Incarnation life = Enter(w2, "h:9");
  Beat(host);
  host.OnGone(w2, life, "it is gone");
  Enter(w3, "h:9");
  EXPECT_EQ(host.AddressOfGuest(w2), Guests::kNowhere);
  Beat(host);
  EXPECT_EQ(ps1.AddressOfGuest(w3), "h:9");
  EXPECT_EQ(ps1.AddressOfGuest(w2), Guests::kNowhere);
}

TEST_F(GuestTest, TheEndOfTheJobWaitsForGuestsThatAreThere) {
  const auto has_ended = [this] { return host.AwaitEndOfJob(scheduler.now()); };
  const Incarnation life = Enter(w2, "h:9");
  ASSERT_TRUE(Ask(w3, "h:10").ok());  // and does not come
  ASSERT_TRUE(host.OnDone(kW0, 11).ok());
  ASSERT_TRUE(host.OnDone(kW1, 12).ok());
  EXPECT_FALSE(has_ended());
  ASSERT_TRUE(host.OnDone(w2, life).ok());
  EXPECT_TRUE(has_ended());
  const Incarnation later = Enter(w3, "h:10");
  EXPECT_FALSE(has_ended());
  ASSERT_TRUE(host.OnLeave(w3, later).ok());
  EXPECT_TRUE(has_ended());
}

TEST_F(GuestTest, AnAuthorityThatIsStartedAgainLetsInWhoHoldsALifeBeforeAnyOther) {
  // Two of the cluster spec that may still come do not count: it is there already.
  Membership next{{.self = kPs,
                   .cluster = ClusterSpec::FromFlag(kSpec).value(),
                   .lease = absl::Seconds(10),
                   .environment = &environment,
                   .max_workers = 2}};
  EXPECT_TRUE(next.MayBeGuest(absl::InvalidArgumentError("no such task"), w2, {}));
  // One that waits for a place asks first.
  const absl::Status waits = next.AdmitTask(w4, 0, "h:11");
  EXPECT_TRUE(absl::IsResourceExhausted(waits)) << waits;
  EXPECT_THAT(std::string(waits.message()), HasSubstr("ps:0 has just begun to find out who trains"));
  for (const auto& [task, life, address] :
       {std::tuple(w2, 77, "h:9"), std::tuple(w3, 78, "h:10"), std::tuple(w5, 79, "h:12")}) {
    ASSERT_TRUE(next.AdmitTask(task, life, address).ok());
    ASSERT_TRUE(next.OnSignOfLife(task, life).ok());
    EXPECT_EQ(next.AddressOfGuest(task), address);
  }
  PassOf(next, 80, {{w2, 77}, {w3, 78}});
  EXPECT_THAT(std::string(next.AdmitTask(w4, 0, "h:11").message()), HasSubstr("has 2 tasks that train"))
      << "not two of the cluster spec that never came, besides: " << next.AdmitTask(w4, 0, "h:11");
  EXPECT_TRUE(next.AdmitTask(w2, 77, "h:9").ok()) << "it goes on";
  EXPECT_TRUE(next.AdmitTask(w5, 79, "h:12").ok()) << "it was only silent";
}

TEST_F(GuestTest, ATaskOfTheClusterSpecThatDoesNotComeKeepsNoPlace) {
  const Incarnation life = Enter(w2, "h:9"), other = Enter(w3, "h:10");
  EXPECT_THAT(Refusal(w4, "h:11"), HasSubstr("has 4 tasks that train, or may still come"));
  PassOf(host, 80, {{w2, life}, {w3, other}});
  EXPECT_TRUE(Ask(w4, "h:11").ok()) << Ask(w4, "h:11");
  EXPECT_TRUE(Ask(w5, "h:12").ok());
  EXPECT_TRUE(host.AdmitTask(kW0, 0, "h:2").ok()) << "it is let in, whenever it comes";
}

TEST_F(GuestTest, TheEndWaitsForNoTaskOfTheClusterSpecThatHasNotCome) {
  ASSERT_TRUE(host.OnDone(kW0, 11).ok());
  ASSERT_TRUE(authority.OnDone(kW0, 11).ok());
  EXPECT_FALSE(host.AwaitEndOfJob(scheduler.now())) << "worker 1 may still come";
  PassOf(host, 80, {});
  PassOf(authority, 80, {});
  EXPECT_TRUE(host.AwaitEndOfJob(scheduler.now()));
  EXPECT_FALSE(authority.AwaitEndOfJob(scheduler.now())) << "where nobody else can come, it is waited for";
}

TEST_F(GuestTest, WhoLeavesInGoodOrderIsNotLostAndIsNotCalled) {
  std::vector<std::string> said;
  host.AddLossListener([&](const TaskName&, Incarnation, const absl::Status& reason) {
    said.push_back(std::string(reason.message()));
  });
  const Incarnation life = Enter(w2, "h:9"), failed = Enter(w3, "h:10");
  ASSERT_TRUE(host.OnSignOfLife(kW0, 11).ok());
  Beat(host);
  ASSERT_TRUE(host.OnLeave(w2, life).ok());
  ASSERT_TRUE(host.OnLeave(kW0, 11).ok());
  ASSERT_TRUE(host.OnLeave(w3, failed, "NaN loss").ok());
  ASSERT_TRUE(Ask(w4, "h:9").ok()) << "its address is free at once: " << Ask(w4, "h:9");
  PassWith(&host, 14);
  EXPECT_THAT(said, ElementsAre("worker:0 was lost: no sign of life for 10s", "worker:2 has left",
                                "worker:3 was lost: it has failed: NaN loss"));
  EXPECT_EQ(host.state(w2), State::kLeft);
  EXPECT_THAT(host.LostTasks(), ElementsAre(kW0, w3)) << "the chief is waited for";
  EXPECT_EQ(host.LossOf(w2, life).message(), "worker:2 has left");
  EXPECT_EQ(host.AddressOfGuest(w2), Guests::kNowhere);
  EXPECT_EQ(host.AddressOfGuest(w3), "h:10");
  EXPECT_EQ(ps1.state(w2), State::kLeft);
  EXPECT_THAT(ps1_losses, Contains("worker:2 has left"));
  EXPECT_EQ(ps1.AddressOfGuest(w2), Guests::kNowhere);
  // It comes again from where it was.
  Enter(w2, "h:9");
  EXPECT_EQ(host.AddressOfGuest(w2), "h:9");
  EXPECT_THAT(said.back(), HasSubstr("worker:2 has left, and another process is it now"));
  // Somebody else may be where a guest was that has not come back for long.
  PassWith(&host, 40);
  EXPECT_THAT(host.LostTasks(), Not(Contains(w3)));
  EXPECT_EQ(host.AddressOfGuest(w3), Guests::kNowhere);
  EXPECT_EQ(ps1.AddressOfGuest(w3), Guests::kNowhere);
  EXPECT_THAT(host.LostTasks(), Contains(kW0)) << "the cluster spec says who is there";
}

TEST_F(GuestTest, AGuestWhoseAddressAnotherOneHasIsKnownToWhoComesLater) {
  const Incarnation life = Enter(w2, "h:9");
  host.OnGone(w2, life, "it is gone");
  Enter(w3, "h:9");
  Membership late{{{"ps", 1}, ClusterSpec::FromFlag(kSpec).value(), absl::Seconds(10), &ps1_environment}};
  late.SetIncarnation(host.incarnation() + 50);
  late.ApplyView(host.ViewSince({}), host.self());
  EXPECT_EQ(late.AddressOfGuest(w2), Guests::kNowhere);
  // It comes again, and its first message is faster than the view.
  const ViewNumber known = late.last_loss();
  EXPECT_TRUE(late.Admit(w2, life + 10, 0, known).ok()) << late.Admit(w2, life + 10, 0, known);
}

TEST_F(GuestTest, NamesOfThoseThatHaveEndedAreGivenAway) {
  for (int i = 2; i < 2 + static_cast<int>(Guests::kMaxGuests); ++i) {
    const TaskName guest{"worker", i};
    const Incarnation life = ++next_life;
    ASSERT_TRUE(host.AdmitTask(guest, life, absl::StrCat("h:", 10'000 + i)).ok());
    ASSERT_TRUE((i == 2 ? host.OnSignOfLife(guest, life) : host.OnDone(guest, life)).ok());
  }
  Beat(host);
  const TaskName next{"worker", 20'000};
  Enter(next, "h:9");
  EXPECT_EQ(host.tasks().size(), 4 + Guests::kMaxGuests);
  EXPECT_EQ(host.state(w2), State::kAlive);
  EXPECT_EQ(host.AddressOfGuest(w3), "") << "the first that was done";
  Beat(host);
  EXPECT_EQ(ps1.AddressOfGuest(next), "h:9");
  EXPECT_EQ(ps1.tasks().size(), 4 + Guests::kMaxGuests);
}

}  // namespace
}  // namespace weir
