#include "distributed/authority.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

const TaskName kPs{"ps", 0}, kPs1{"ps", 1}, kChief{"chief", 0}, kWorker{"worker", 0};

// An authority's process.
struct Process {
  explicit Process(Scheduler& scheduler, const char* name = "ps")
      : environment(scheduler, name),
        members({kPs, ClusterSpec::FromFlag("ps|h:1;h:4,chief|h:2,worker|h:3").value(), absl::Seconds(10),
                 &environment}),
        authority(members) {}

  SimulatedEnvironment environment;
  Membership members;
  Authority authority;
};

struct AuthorityTest : ::testing::Test {
  Scheduler scheduler{1};
  Process first{scheduler};
};

TEST_F(AuthorityTest, IsTheFirstPsElseTheChief) {
  const auto of = [](const char* spec) { return AuthorityOf(ClusterSpec::FromFlag(spec).value()); };
  EXPECT_EQ(of("worker|h:1;h:2,ps|h:3;h:4"), kPs);
  EXPECT_EQ(of("worker|h:1;h:2,chief|h:3"), kChief);
  EXPECT_EQ(of("worker|h:1;h:2,master|h:3"), (TaskName{"master", 0}));
  EXPECT_EQ(of("worker|h:1;h:2"), kWorker);
  EXPECT_EQ(of("other|h:1"), (TaskName{"other", 0}));
  EXPECT_EQ(AuthorityOf(ClusterSpec()), TaskName());
}

TEST_F(AuthorityTest, LifesAreGreaterThanAllBeforeAndStayWhoTheyAre) {
  const Incarnation own = first.members.incarnation();
  EXPECT_EQ(TermOf(own), TermAt(scheduler.now()));
  const Incarnation one = *first.authority.Join({kChief}), two = *first.authority.Join({kWorker});
  EXPECT_GT(one, own);
  EXPECT_GT(two, one);
  EXPECT_EQ(first.authority.Join({kChief, one, two, own}).value(), one);
  EXPECT_EQ(first.members.state(kChief), Membership::State::kAlive);
  EXPECT_EQ(first.authority.Join({kChief, one, two, own}).value(), one);
}

// It asked before it was replaced, and its request comes when nobody waits for the answer any more.
TEST_F(AuthorityTest, ALateFirstRequestEndsNobody) {
  const Incarnation held = *first.authority.Join({kChief});
  ASSERT_TRUE(first.authority.Join({kChief, held}).ok());
  EXPECT_GT(first.authority.Join({kChief}).value(), held);  // nobody takes it
  EXPECT_EQ(first.authority.Join({kChief, held}).value(), held);
}

TEST_F(AuthorityTest, TheLaterProcessOfATaskSupersedesTheEarlier) {
  const Incarnation zombie = *first.authority.Join({kChief});
  ASSERT_TRUE(first.authority.Join({kChief, zombie}).ok());
  const Incarnation next = *first.authority.Join({kChief});
  ASSERT_TRUE(first.authority.Join({kChief, next}).ok());
  const absl::Status refused = first.authority.Join({kChief, zombie}).status();
  EXPECT_TRUE(IsSuperseded(refused)) << refused;
  EXPECT_EQ(ExitCodeFor(refused), kExitSuperseded);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("chief:0 (life "));
  EXPECT_TRUE(first.authority.Join({kChief, next}).ok()) << "the refused one has changed nothing";
}

// It was stopped before it had joined, and goes on when another process is the task.
TEST_F(AuthorityTest, AnOlderProcessThatJoinsLateIsSuperseded) {
  const Incarnation held = *first.authority.Join({.task = kChief, .age = absl::Seconds(1)});
  ASSERT_TRUE(first.authority.Join({.task = kChief, .held = held, .age = absl::Seconds(2)}).ok());
  ASSERT_TRUE(first.authority.Join({.task = kChief, .held = held, .age = absl::Seconds(1)}).ok())
      << "was late";
  EXPECT_TRUE(first.authority.Join({.task = kChief, .age = absl::Seconds(3)}).ok()) << "of the same process";
  EXPECT_TRUE(absl::IsUnavailable(first.authority.Join({.task = kChief, .age = absl::Seconds(5)}).status()))
      << "what the other one has said may have waited";
  scheduler.RunFor(absl::Seconds(11));
  ASSERT_TRUE(first.authority.Join({.task = kChief, .held = held, .age = absl::Seconds(13)}).ok());
  const absl::Status refused = first.authority.Join({.task = kChief, .age = absl::Seconds(16)}).status();
  EXPECT_TRUE(IsSuperseded(refused)) << refused;
  Membership zombie({kChief, ClusterSpec::FromFlag("ps|h:1;h:4,chief|h:2,worker|h:3").value(),
                     absl::Seconds(10), &first.environment});
  zombie.OnReplyStatus(refused);
  EXPECT_TRUE(IsSuperseded(zombie.superseded()));
  const absl::StatusOr<Incarnation> younger =
      first.authority.Join({.task = kChief, .age = absl::Milliseconds(12500)});
  ASSERT_TRUE(younger.ok()) << younger.status();
  EXPECT_TRUE(
      first.authority.Join({.task = kChief, .held = *younger, .age = absl::Milliseconds(12500)}).ok());
}

// Both ask before either has been heard of in its life.
TEST_F(AuthorityTest, AnOlderProcessThatAsksRightAfterAYoungerIsNotGrantedALaterLife) {
  const Incarnation held = *first.authority.Join({.task = kChief, .age = absl::Milliseconds(100)});
  const absl::Status refused =
      first.authority.Join({.task = kChief, .age = absl::Milliseconds(400)}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused << ": it asks again with its next heartbeat";
  ASSERT_TRUE(first.authority.Join({.task = kChief, .held = held, .age = absl::Milliseconds(300)}).ok());
  scheduler.RunFor(absl::Seconds(11));
  ASSERT_TRUE(first.authority.Join({.task = kChief, .held = held, .age = absl::Milliseconds(11300)}).ok());
  EXPECT_TRUE(IsSuperseded(first.authority.Join({.task = kChief, .age = absl::Seconds(14)}).status()));
}

// Its first question took longer than the second, so it seems to have begun earlier by the second.
TEST_F(AuthorityTest, AProcessThatAsksTwiceAsksNobodyElse) {
  JoinRequest request = {.task = kChief, .age = absl::Milliseconds(400), .process = 2};
  ASSERT_TRUE(first.authority.Join(request).ok());
  request.age = absl::Milliseconds(450);
  const absl::Status again = first.authority.Join(request).status();
  EXPECT_TRUE(again.ok()) << again;
}

// Its first request was lost, and another process took its place a moment after both were started. It had
// been granted a greater life, and its successor, which had the task's address, was superseded.
TEST_F(AuthorityTest, OfTwoProcessesOfAboutTheSameAgeTheOneThatIsThereStays) {
  const JoinRequest older = {.task = kChief, .age = absl::Milliseconds(900), .process = 1};
  JoinRequest younger = {.task = kChief, .age = absl::Milliseconds(400), .process = 2};
  younger.held = *first.authority.Join(younger);
  ASSERT_TRUE(first.authority.Join(younger).ok());
  const absl::Status refused = first.authority.Join(older).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused << ": which is the older one is not certain";
  EXPECT_THAT(std::string(refused.message()), HasSubstr("another process"));
  // A second server of the same process, whose request was faster.
  EXPECT_TRUE(first.authority.Join({.task = kChief, .age = absl::Milliseconds(401), .process = 2}).ok());
  scheduler.RunFor(absl::Seconds(11));
  younger.age += absl::Seconds(11);
  ASSERT_TRUE(first.authority.Join(younger).ok());
  JoinRequest later = older;
  later.age += absl::Seconds(11);
  const absl::Status certain = first.authority.Join(later).status();
  EXPECT_TRUE(IsSuperseded(certain)) << certain << ": several heartbeats have said the same";
}

TEST_F(AuthorityTest, AnOlderProcessOfAboutTheSameAgeMayBeTheTaskWhenTheOtherIsGone) {
  JoinRequest younger = {.task = kChief, .age = absl::Milliseconds(400), .process = 2};
  younger.held = *first.authority.Join(younger);
  ASSERT_TRUE(first.authority.Join(younger).ok());
  const JoinRequest older = {.task = kChief, .age = absl::Milliseconds(900), .process = 1};
  ASSERT_TRUE(absl::IsUnavailable(first.authority.Join(older).status()));
  first.members.OnGone(kChief, younger.held, "its address refuses connections");
  EXPECT_TRUE(first.authority.Join(older).ok());
}

// The authority was stopped for twenty seconds, and what it reads then says how old the processes were when
// they asked. Of the earlier process one message is left, which makes it seem the younger one (2672445).
TEST_F(AuthorityTest, AProcessIsNotSupersededByAnEarlierOneWhoseMessageHasWaited) {
  JoinRequest earlier = {.task = kPs1, .process = 1};
  const Incarnation held = *first.authority.Join(earlier);
  ASSERT_TRUE(first.authority.Join(earlier).ok()) << "it has asked twice, and takes the first life";
  earlier.held = held;
  scheduler.RunFor(absl::Seconds(23));
  earlier.age = absl::Milliseconds(2400);  // then it was killed
  ASSERT_TRUE(first.authority.Join(earlier).ok());
  JoinRequest later = {.task = kPs1, .age = absl::Seconds(20), .process = 2};  // that has just asked
  const absl::Status refused = first.authority.Join(later).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused << ": which is the later one is not certain";
  scheduler.RunFor(absl::Seconds(11));
  later.age += absl::Seconds(11);
  EXPECT_TRUE(absl::IsUnavailable(first.authority.Join(later).status())) << "time alone tells nothing";
  first.members.OnGone(kPs1, earlier.held, "its address refuses connections");
  const absl::StatusOr<Incarnation> life = first.authority.Join(later);
  ASSERT_TRUE(life.ok()) << life.status();
  later.held = *life;
  EXPECT_TRUE(first.authority.Join(later).ok());
}

// It was so short that it never came to ask in the life that it was granted.
TEST_F(AuthorityTest, AnOlderProcessIsSupersededByOneThatHasShownItsLifeOtherwise) {
  const Incarnation life = *first.authority.Join({.task = kChief, .age = absl::ZeroDuration(), .process = 2});
  ASSERT_TRUE(first.members.OnDone(kChief, life).ok());
  scheduler.RunFor(absl::Seconds(20));
  const absl::Status refused =
      first.authority.Join({.task = kChief, .age = absl::Seconds(40), .process = 1}).status();
  EXPECT_TRUE(IsSuperseded(refused)) << refused;
}

TEST_F(AuthorityTest, AnOlderProcessThatJoinsWhenItsTaskIsDoneIsSuperseded) {
  JoinRequest younger = {.task = kChief, .age = absl::Milliseconds(400), .process = 2};
  younger.held = *first.authority.Join(younger);
  ASSERT_TRUE(first.authority.Join(younger).ok());
  ASSERT_TRUE(first.members.OnDone(kChief, younger.held).ok());
  const absl::Status refused =
      first.authority.Join({.task = kChief, .age = absl::Milliseconds(900), .process = 1}).status();
  EXPECT_TRUE(IsSuperseded(refused)) << refused;
}

TEST_F(AuthorityTest, AProcessThatAskedAndDiedLeavesNoTrace) {
  ASSERT_TRUE(first.authority.Join({.task = kChief}).ok());
  scheduler.RunFor(absl::Seconds(5));
  EXPECT_TRUE(first.authority.Join({.task = kChief, .age = absl::Seconds(10)}).ok());
}

TEST_F(AuthorityTest, OneThatRestartsGrantsGreaterLivesEvenWithAClockThatIsBehind) {
  const Incarnation worker = *first.authority.Join({kWorker});
  // Another machine, whose clock is behind: the one before had been ahead.
  const Incarnation old_authority = first.members.incarnation() + (Incarnation{5000} << kSerialBits);
  const Incarnation old_worker = worker + (Incarnation{5000} << kSerialBits);
  Process second(scheduler, "ps life 2");
  const Incarnation too_low = second.members.incarnation();
  ASSERT_LT(too_low, old_authority);
  EXPECT_EQ(second.authority.Join({kWorker, old_worker, old_worker, old_authority}).value(), old_worker)
      << "who holds a life keeps it";
  EXPECT_GT(second.members.incarnation(), old_authority) << "or its answers would be taken for its past";
  EXPECT_GT(second.authority.Join({kWorker}).value(), old_worker);
  EXPECT_TRUE(second.members.superseded().ok());
}

// The other tasks know the worker's earlier process in a greater life, and would refuse the next one for
// ever.
TEST_F(AuthorityTest, WhoeverJoinsBeforeGreaterLivesAreReportedIsGivenAnotherLife) {
  const Incarnation ahead = Incarnation{5000} << kSerialBits;
  const Incarnation old_authority = first.members.incarnation() + ahead;
  const Incarnation old_worker = *first.authority.Join({kWorker}) + ahead, old_chief = old_worker + 1;
  Process second(scheduler, "ps life 2");
  JoinRequest worker = {.task = kWorker, .process = 3};
  worker.held = *second.authority.Join(worker);
  EXPECT_EQ(second.authority.Join(worker).value(), worker.held);
  ASSERT_LT(worker.held, old_worker);
  const JoinRequest chief = {
      .task = kChief, .held = old_chief, .highest_known = old_chief, .known_authority = old_authority};
  EXPECT_EQ(second.authority.Join(chief).value(), old_chief);
  const Incarnation next = second.authority.Join(worker).value();
  EXPECT_GT(next, old_chief) << "above all that anybody may know the worker in";
  EXPECT_EQ(second.authority.Join(worker).value(), next) << "the answer may have been lost";
  worker.held = next;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(second.authority.Join(worker).value(), next) << "once";
    EXPECT_EQ(second.authority.Join(chief).value(), old_chief);
    scheduler.RunFor(absl::Seconds(11));
  }
}

// It lists devices, or cancels a step, before it asks with its next heartbeat; and dies.
TEST_F(AuthorityTest, ALifeIsAboveThoseThatWereHeardWithOtherMessages) {
  const Incarnation later = FirstLifeOfTerm(TermOf(first.members.incarnation()) + 1000) + 5;
  ASSERT_TRUE(first.members.Admit(kWorker, later, 0).ok());
  const absl::StatusOr<Incarnation> granted = first.authority.Join({.task = kWorker});
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_GT(*granted, later);
  EXPECT_EQ(first.authority.Join({.task = kWorker, .held = *granted}).value(), *granted);
}

// Later, who has not said so has waited for a lease, and a wrong word would cost a job that trains its steps.
TEST_F(AuthorityTest, NobodyIsGivenAnotherLifeWhenAllHaveBeenHeardOf) {
  JoinRequest worker = {.task = kWorker, .process = 3};
  worker.held = *first.authority.Join(worker);
  EXPECT_EQ(first.authority.Join(worker).value(), worker.held);
  for (int i = 0; i < 6; ++i) {
    scheduler.RunFor(absl::Seconds(2));
    first.members.CheckLeases();
  }
  ASSERT_FALSE(first.members.IsGathering());
  ASSERT_TRUE(first.authority.Join({.task = kChief, .highest_known = worker.held << 1}).ok());
  EXPECT_EQ(first.authority.Join(worker).value(), worker.held);
}

TEST_F(AuthorityTest, OneThatSleptWhileAnotherTookItsPlaceEnds) {
  const Incarnation worker = *first.authority.Join({kWorker});
  ASSERT_TRUE(first.authority.Join({kWorker, worker, worker, first.members.incarnation()}).ok());
  scheduler.RunFor(absl::Seconds(1));
  Process second(scheduler, "ps life 2");
  const Incarnation later = second.members.incarnation();
  ASSERT_GT(later, first.members.incarnation());
  std::string told;
  first.members.AddSupersededListener([&](const absl::Status& why) { told = std::string(why.message()); });
  EXPECT_FALSE(first.authority.Join({kWorker, worker, later, later}).ok());
  EXPECT_TRUE(IsSuperseded(first.members.superseded()));
  EXPECT_THAT(told, HasSubstr("ps:0 (life "));
  EXPECT_THAT(told, HasSubstr("worker:0 knows its life "));
  EXPECT_FALSE(first.members.AwaitEndOfJob(absl::InfiniteFuture())) << "returns at once";
}

TEST_F(AuthorityTest, AReportOfTheLastLifeShutsNobodyOut) {
  const Incarnation liar = *first.authority.Join({kWorker}), chief = *first.authority.Join({kChief});
  ASSERT_TRUE(first.authority.Join({kChief, chief}).ok());
  ASSERT_TRUE(first.authority.Join({kWorker, liar, kLastLife}).ok());
  EXPECT_TRUE(first.authority.Join({kChief, chief}).ok()) << "who has a life keeps it";
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<Incarnation> next = first.authority.Join({kChief});
    ASSERT_TRUE(next.ok()) << next.status();
    const absl::StatusOr<Incarnation> kept = first.authority.Join({kChief, *next, *next});
    EXPECT_TRUE(kept.ok()) << kept.status();
  }
}

TEST_F(AuthorityTest, RefusesStrangersAndLivesFromBeyondTime) {
  EXPECT_TRUE(absl::IsInvalidArgument(first.authority.Join({kChief, ~Incarnation{0}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(first.authority.Join({kChief, 0, ~Incarnation{0}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(first.authority.Join({kChief, 0, 0, ~Incarnation{0}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(first.authority.Join({{"worker", 9}, 7}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(first.authority.Join({{"worker", 9}}).status()));
}

TEST_F(AuthorityTest, AGuestIsWhereItsNewestLifeIs) {
  SimulatedEnvironment environment(scheduler, "host");
  Membership members({.self = kPs,
                      .cluster = ClusterSpec::FromFlag("ps|h:1,worker|h:3").value(),
                      .lease = absl::Seconds(10),
                      .environment = &environment,
                      .max_workers = 2});
  Authority authority(members);
  for (int i = 0; i < 11; ++i) {  // until it knows who is there
    scheduler.RunFor(absl::Seconds(1));
    members.CheckLeases();
  }
  const TaskName guest{"worker", 5};
  const auto ask = [&](Incarnation held, const char* address) {
    return authority.Join({.task = guest, .held = held, .address = address});
  };
  const Incarnation life = ask(0, "h:7").value();
  ASSERT_EQ(ask(life, "h:7").value(), life);
  EXPECT_EQ(members.AddressOfGuest(guest), "h:7");
  ASSERT_EQ(ask(life, "h:8").value(), life);
  EXPECT_EQ(members.AddressOfGuest(guest), "h:8") << "it says where it is with every heartbeat";
  const Incarnation later = ask(0, "h:9").value();
  EXPECT_EQ(members.AddressOfGuest(guest), "h:8") << "nobody has taken the later life yet";
  ASSERT_EQ(ask(later, "h:9").value(), later);
  EXPECT_EQ(members.AddressOfGuest(guest), "h:9");
  EXPECT_TRUE(IsSuperseded(ask(life, "h:8").status()));
  EXPECT_EQ(members.AddressOfGuest(guest), "h:9") << "what an earlier life says does not count";
}

// The other of two ps was in office before.
struct ElectedTest : ::testing::Test {
  ElectedTest() {
    members.SetOfficeListener([this](bool is_authority) { told.push_back(is_authority); });
  }
  absl::Time In(absl::Duration duration) { return environment.SteadyNow() + duration; }

  Scheduler scheduler{1};
  SimulatedEnvironment environment{scheduler, "ps"};
  Membership members{{.self = kPs,
                      .cluster = ClusterSpec::FromFlag("ps|h:1;h:4,chief|h:2,worker|h:3").value(),
                      .environment = &environment,
                      .is_elected = true}};
  Authority authority{members};
  std::vector<bool> told;
};

TEST_F(ElectedTest, AnswersInOfficeOnlyAndGrantsLivesOfItsTerm) {
  EXPECT_EQ(members.authority(), TaskName());
  EXPECT_EQ(members.incarnation(), 0u);
  EXPECT_TRUE(absl::IsUnavailable(authority.Join({kChief}).status()));
  members.SetAuthority(kPs1, FirstLifeOfTerm(5));
  EXPECT_EQ(members.authority(), kPs1);
  EXPECT_FALSE(members.HoldsOffice());
  members.TakeOffice(FirstLifeOfTerm(5), In(absl::Seconds(8)));
  EXPECT_EQ(members.authority(), kPs1) << "another one is in that office";
  members.TakeOffice(FirstLifeOfTerm(6), In(absl::Seconds(8)));
  EXPECT_EQ(members.authority(), kPs);
  EXPECT_EQ(members.incarnation(), FirstLifeOfTerm(6));
  const Incarnation life = authority.Join({kChief}).value();
  EXPECT_EQ(TermOf(life), 6u);
  EXPECT_EQ(authority.Join({kChief, life, life}).value(), life);
  EXPECT_EQ(members.view(), (ViewNumber{FirstLifeOfTerm(6), members.view().number}));
  scheduler.RunFor(absl::Seconds(9));
  EXPECT_FALSE(members.HoldsOffice());
  EXPECT_FALSE(members.HoldsLease());
  EXPECT_TRUE(absl::IsUnavailable(authority.Join({kChief, life, life}).status()));
  members.ExtendOffice(In(absl::Seconds(8)));
  EXPECT_TRUE(authority.Join({kChief, life, life}).ok());
  EXPECT_THAT(told, ::testing::ElementsAre(true));
}

// It was succeeded and does not know it yet, or the store has lost a later term: lives beyond its term would
// be those of others.
TEST_F(ElectedTest, GrantsNothingWhenALaterTermIsReported) {
  members.TakeOffice(FirstLifeOfTerm(6), In(absl::Seconds(8)));
  const Incarnation later = FirstLifeOfTerm(9) + 3;
  const absl::Status refused = authority.Join({kChief, 0, later}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("chief:0 knows of the life 9.3: it asks the store"));
  EXPECT_TRUE(absl::IsUnavailable(authority.Join({kWorker, later, later}).status()));
  EXPECT_EQ(TermOf(authority.Join({kChief}).value()), 6u);
  EXPECT_EQ(members.highest_known(), later) << "the next term is above it";
  members.TakeOffice(FirstLifeOfTerm(10), In(absl::Seconds(8)));
  EXPECT_EQ(authority.Join({kWorker, later, later}).value(), later);
}

// The store need not be asked while the authority answers, which may take a later office meanwhile.
TEST_F(ElectedTest, FollowsTheOfficeInWhichTheAuthorityAnswers) {
  members.SetAuthority(kPs1, FirstLifeOfTerm(5));
  members.SetIncarnation(FirstLifeOfTerm(5) + 1);
  View view{.number = {FirstLifeOfTerm(5), 7}, .is_settled = true, .last_loss = 7};
  members.ApplyView(view, kPs1);
  view.number = {FirstLifeOfTerm(8), 1};
  view.last_loss = 1;
  members.ApplyView(view, kPs1);
  EXPECT_EQ(members.view(), view.number);
  EXPECT_EQ(members.office(), FirstLifeOfTerm(8));
  // One that views count for nothing of is no authority.
  members.SetAuthority(kChief, FirstLifeOfTerm(6));
  EXPECT_EQ(members.authority(), kPs1);
  EXPECT_EQ(members.office(), FirstLifeOfTerm(8));
  // Nobody is in office so near to the last term, unless the store says so.
  view.number = {FirstLifeOfTerm(kLastReportedTerm + 1), 1};
  members.ApplyView(view, kPs1);
  EXPECT_EQ(members.office(), FirstLifeOfTerm(8));
  EXPECT_EQ(members.view(), ViewNumber(FirstLifeOfTerm(8), 1));
  members.SetAuthority(kPs1, view.number.authority);
  members.ApplyView(view, kPs1);
  EXPECT_EQ(members.view(), view.number);
}

// It may have lost the office since it looked whether it holds it: the number of its view would be the
// successor's.
TEST_F(ElectedTest, SaysNothingInTheOfficeOfAnother) {
  members.TakeOffice(FirstLifeOfTerm(5), In(absl::Seconds(8)));
  EXPECT_EQ(members.ViewSince({}).number.authority, FirstLifeOfTerm(5));
  members.SetAuthority(kPs1, FirstLifeOfTerm(6));
  EXPECT_EQ(members.ViewSince({}).number, ViewNumber());
}

TEST_F(ElectedTest, KnowsWhatTheViewsBeforeHaveSaid) {
  members.SetAuthority(kPs1, FirstLifeOfTerm(5));
  const Incarnation own = FirstLifeOfTerm(5) + 1, chief = own + 1, worker = own + 2;
  members.SetIncarnation(own);
  View view{.number = {FirstLifeOfTerm(5), 7}, .is_settled = true, .last_loss = 7};
  view.members = {{kChief, chief, MemberState::kAlive},
                  {kWorker, worker, MemberState::kLost, false, "silent"}};
  members.ApplyView(view, kPs1);
  members.TakeOffice(FirstLifeOfTerm(6), In(absl::Seconds(8)));
  EXPECT_EQ(members.incarnation(), own) << "it goes on in its life";
  const View whole = members.ViewSince(view.number);
  EXPECT_GT(whole.number, view.number);
  EXPECT_EQ(whole.since, 0u);
  EXPECT_FALSE(whole.is_settled);
  ASSERT_EQ(whole.members.size(), 2u);
  EXPECT_EQ(whole.members[0].life, chief);
  EXPECT_EQ(whole.members[1].state, MemberState::kLost);
  EXPECT_GT(authority.Join({kWorker}).value(), worker);
  // Somebody else was elected: what it said as the authority counts for nothing any more.
  members.SetAuthority(kPs1, FirstLifeOfTerm(7));
  EXPECT_FALSE(members.is_authority());
  EXPECT_TRUE(absl::IsUnavailable(authority.Join({kWorker}).status()));
  view.number = {FirstLifeOfTerm(6), 100};
  view.members[0].state = MemberState::kLost;
  members.ApplyView(view, kPs1);
  EXPECT_EQ(members.state(kChief), MemberState::kAlive) << "of an office that is over";
  view.number = {FirstLifeOfTerm(7), 1};
  members.ApplyView(view, kPs1);
  EXPECT_EQ(members.state(kChief), MemberState::kLost);
  members.TakeOffice(FirstLifeOfTerm(6), In(absl::Seconds(8)));
  EXPECT_FALSE(members.is_authority()) << "a late answer of the store";
  EXPECT_THAT(told, ::testing::ElementsAre(true, false));
}

// A process was replaced while it was stopped, and its successor has ended. The authority that was started
// after that knows neither of them.
TEST_F(AuthorityTest, AProcessThatIsNotAtItsAddressDoesNotKeepItsLifeFromBefore) {
  using Found = Authority::Found;
  const JoinRequest held = {.task = kChief, .held = *first.authority.Join({kChief}), .address = "h:2"};
  Process next(scheduler);
  ASSERT_TRUE(next.authority.Join(held).ok());
  ASSERT_TRUE(next.authority.BeginLook(held));
  EXPECT_FALSE(next.authority.BeginLook(held)) << "one look at a time";
  next.authority.EndLook(held, Found::kNobody);
  const auto pass = [this](absl::Duration time) {
    scheduler.RunUntil([] { return false; }, scheduler.now() + time);
  };
  pass(absl::Seconds(6));
  EXPECT_TRUE(next.authority.Join(held).ok()) << "its address may be out of reach for a moment";
  ASSERT_TRUE(next.authority.BeginLook(held));
  next.authority.EndLook(held, Found::kAnother);
  pass(absl::Seconds(6));
  const absl::Status refused = next.authority.Join(held).status();
  EXPECT_TRUE(IsSuperseded(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("does not find it at its address h:2"));
}

// A look that was in vain says nothing, those after it do.
TEST_F(AuthorityTest, AProcessThatIsMissedAgainAfterAVainLookIsSuperseded) {
  using Found = Authority::Found;
  const JoinRequest held = {.task = kChief, .held = *first.authority.Join({kChief})};
  Process next(scheduler);
  ASSERT_TRUE(next.authority.Join(held).ok());
  for (int look = 0; look < 7; ++look) {
    ASSERT_TRUE(next.authority.BeginLook(held));
    next.authority.EndLook(held, look == 1 ? Found::kUnknown : Found::kNobody);
    scheduler.RunUntil([] { return false; }, scheduler.now() + absl::Seconds(2));
    EXPECT_TRUE(look == 6 || next.authority.Join(held).ok()) << look;
  }
  const absl::Status refused = next.authority.Join(held).status();
  EXPECT_TRUE(IsSuperseded(refused)) << refused;
}

// The authority, or the link to it, stood still after one look that may have been wrong.
TEST_F(AuthorityTest, OneLookSaysNothingAfterALongTime) {
  using Found = Authority::Found;
  const JoinRequest held = {.task = kChief, .held = *first.authority.Join({kChief})};
  Process next(scheduler);
  ASSERT_TRUE(next.authority.Join(held).ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(next.authority.BeginLook(held));
    next.authority.EndLook(held, Found::kNobody);
    scheduler.RunUntil([] { return false; }, scheduler.now() + absl::Seconds(12));
    const absl::Status joined = next.authority.Join(held).status();
    EXPECT_TRUE(joined.ok()) << joined;
  }
}

TEST_F(AuthorityTest, AProcessThatAnswersAtItsAddressKeepsItsLifeFromBefore) {
  using Found = Authority::Found;
  const JoinRequest held = {.task = kChief, .held = *first.authority.Join({kChief})};
  Process next(scheduler);
  for (const Found found : {Found::kNobody, Found::kUnknown, Found::kNobody, Found::kIt}) {
    ASSERT_TRUE(next.authority.Join(held).ok());
    ASSERT_TRUE(next.authority.BeginLook(held));
    next.authority.EndLook(held, found);
    scheduler.RunUntil([] { return false; }, scheduler.now() + absl::Seconds(6));
  }
  ASSERT_TRUE(next.authority.Join(held).ok());
  EXPECT_FALSE(next.authority.BeginLook(held)) << "it was found";
  EXPECT_FALSE(first.authority.BeginLook(held)) << "it was granted here";
}

}  // namespace
}  // namespace weir
