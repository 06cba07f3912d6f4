#include "distributed/launch/host_discovery.h"

#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using Answer = std::optional<absl::StatusOr<std::vector<HostSlots>>>;

const absl::Time kBegin = absl::FromUnixSeconds(1000);

// What a script says that is started at this time, and ends before it may take too long.
Answer Ask(HostDiscovery& discovery, absl::Time now) {
  EXPECT_FALSE(discovery.Poll(now).has_value()) << "it is started";
  for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end;) {
    if (Answer answer = discovery.Poll(now); answer.has_value()) return answer;
    if (discovery.next_time() == now + HostDiscovery::kInterval) return std::nullopt;  // nothing new
    absl::SleepFor(absl::Milliseconds(1));
  }
  ADD_FAILURE() << "the script did not end";
  return std::nullopt;
}

TEST(HostDiscovery, WithoutAScriptNothingIsAsked) {
  HostDiscovery none("");
  EXPECT_FALSE(none.is_on());
  EXPECT_FALSE(none.Poll(kBegin).has_value());
  EXPECT_EQ(none.next_time(), absl::InfiniteFuture());
}

TEST(HostDiscovery, TellsWhatIsNew) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/discovered_hosts");
  std::ofstream(path) << "gpu1:4\ngpu2 slots=2  # with a comment\n";
  HostDiscovery discovery(absl::StrCat("cat '", path, "'"));
  absl::Time now = kBegin;
  const Answer first = Ask(discovery, now);
  ASSERT_TRUE(first.has_value() && first->ok());
  ASSERT_EQ((*first)->size(), 2u);
  EXPECT_EQ((**first)[0].host, "gpu1");
  EXPECT_EQ((**first)[0].num_slots, 4);
  EXPECT_EQ((**first)[1].num_slots, 2);
  EXPECT_FALSE(discovery.Poll(now).has_value()) << "it is asked once in a while";
  EXPECT_EQ(discovery.next_time(), now + HostDiscovery::kInterval);
  now = discovery.next_time();
  EXPECT_FALSE(Ask(discovery, now).has_value()) << "the same again";
  std::ofstream(path) << "";
  now = discovery.next_time();
  const Answer none = Ask(discovery, now);
  EXPECT_TRUE(none.has_value() && !none->ok()) << "a list of no hosts is no list";
}

TEST(HostDiscovery, AnErrorIsToldOnce) {
  HostDiscovery discovery("echo 'no network' >&2; exit 7");
  const Answer failed = Ask(discovery, kBegin);
  ASSERT_TRUE(failed.has_value());
  EXPECT_THAT(std::string(failed->status().message()), HasSubstr("exited with code 7: no network"));
  EXPECT_FALSE(Ask(discovery, discovery.next_time()).has_value());
}

// As kubectl and curl do, which write the time.
TEST(HostDiscovery, AnErrorWithAnotherTextIsToldOnceAMinute) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/discovery_count");
  std::ofstream(path) << "0\n";
  HostDiscovery discovery(
      absl::StrCat("n=$(cat '", path, "'); echo $((n + 1)) > '", path, "'; echo \"attempt $n\" >&2; exit 7"));
  absl::Time now = kBegin;
  int num_told = 0;
  for (; now < kBegin + absl::Seconds(61); now = discovery.next_time()) {
    if (Ask(discovery, now).has_value()) ++num_told;
  }
  EXPECT_EQ(num_told, 2) << "at the beginning, and after a minute";
}

TEST(HostDiscovery, ANewKindOfErrorIsToldAtOnce) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/discovery_script");
  std::ofstream(path) << "exit 7\n";
  HostDiscovery discovery(absl::StrCat(". '", path, "'"));
  EXPECT_TRUE(Ask(discovery, kBegin).has_value());
  std::ofstream(path) << "exit 8\n";
  EXPECT_TRUE(Ask(discovery, discovery.next_time()).has_value());
  std::ofstream(path) << "echo gpu1:two\n";
  EXPECT_TRUE(Ask(discovery, discovery.next_time()).has_value());
}

// `set -x` writes more than a pipe takes.
TEST(HostDiscovery, WhatItWritesOnStderrDoesNotMatterWhenItEndsWell) {
  HostDiscovery chatty("head -c 500000 /dev/zero >&2; echo gpu1:4");
  const Answer answer = Ask(chatty, kBegin);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->ok()) << answer->status();
  HostDiscovery failing("head -c 500000 /dev/zero >&2; echo 'the end' >&2; exit 1");
  const Answer error = Ask(failing, kBegin);
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(std::string(error->status().message()), HasSubstr("the end"));
  EXPECT_LT(error->status().message().size(), 400u);
}

TEST(HostDiscovery, AStoppedOneIsAskedNoMore) {
  HostDiscovery discovery("sleep 1000");
  EXPECT_FALSE(discovery.Poll(kBegin).has_value());
  EXPECT_EQ(discovery.fds().size(), 2u);
  discovery.Stop();
  EXPECT_TRUE(discovery.fds().empty());
  EXPECT_EQ(discovery.next_time(), absl::InfiniteFuture());
  EXPECT_FALSE(discovery.Poll(kBegin + absl::Hours(1)).has_value());
}

TEST(HostDiscovery, OneThatIsSlowOrSaysTooMuchIsEnded) {
  HostDiscovery slow("sleep 1000");
  EXPECT_FALSE(slow.Poll(kBegin).has_value());
  EXPECT_FALSE(slow.fds().empty());
  EXPECT_FALSE(slow.Poll(kBegin + absl::Seconds(9)).has_value());
  const Answer late = slow.Poll(kBegin + HostDiscovery::kLongest);
  ASSERT_TRUE(late.has_value());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->status())) << late->status();
  EXPECT_TRUE(slow.fds().empty());

  HostDiscovery endless("yes gpu1:4");
  const Answer endless_answer = Ask(endless, kBegin);
  ASSERT_TRUE(endless_answer.has_value());
  EXPECT_THAT(std::string(endless_answer->status().message()), HasSubstr("more than 65536 bytes"));
}

}  // namespace
}  // namespace weir
