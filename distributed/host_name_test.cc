#include "distributed/host_name.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/no_more_threads.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A name that never exists (RFC 6761).
constexpr char kUnknownName[] = "no-such-host.invalid";

TEST(LookUpHost, NamesAndAddresses) {
  const HostAddresses localhost = LookUpHost("localhost", absl::Seconds(30)).value();
  EXPECT_TRUE(localhost.is_loopback);
  EXPECT_FALSE(localhost.addresses.empty());
  const HostAddresses literal = LookUpHost("192.0.2.7", absl::Seconds(30)).value();
  EXPECT_FALSE(literal.is_loopback);
  EXPECT_THAT(literal.addresses, Contains("192.0.2.7"));
  EXPECT_FALSE(LookUpHost("0.0.0.0", absl::Seconds(30))->is_loopback);
  EXPECT_TRUE(LookUpHost("::1", absl::Seconds(30))->is_loopback);
}

TEST(IsLoopbackHost, GoesByTheAddressAndNotByItsBeginning) {
  for (const char* host : {"localhost", "127.0.0.1", "127.9.8.7", "::1", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host :
       {"127.example.com", "127.", "128.0.0.1", "::2", "gpu1", "", "localhost.example.com"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(LookUpHost, AnUnknownNameIsNamed) {
  const absl::Status status = LookUpHost(kUnknownName, absl::Seconds(30)).status();
  // Unavailable where there is no name server at all.
  EXPECT_TRUE(status.code() == absl::StatusCode::kNotFound || status.code() == absl::StatusCode::kUnavailable)
      << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("host name 'no-such-host.invalid': "));
}

// Whoever has no time left hears where a numbered peer is all the same.
TEST(LookUpHost, AnAddressNeedsNoThreadAndNoTime) {
  const NoMoreThreads no_more;
  for (const char* address : {"127.0.0.1", "192.0.2.7", "::1", "fd00::5"}) {
    const absl::StatusOr<HostAddresses> found = LookUpHost(address, absl::ZeroDuration());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(found->addresses, ElementsAre(address));
  }
}

TEST(LookUpHost, ASystemWithoutThreadsIsAnError) {
  const NoMoreThreads no_more;
  const absl::Status status = LookUpHost("localhost", absl::Seconds(30)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no further thread"));
}

TEST(AwaitHost, NamesForgeNoLines) {
  int num_asked = 0;
  const auto lookup = [&](const std::string& host) -> absl::StatusOr<HostAddresses> {
    if (++num_asked < 2) return absl::NotFoundError("not\nweir: all is well\x1b[2J");
    return HostAddresses{{host}, false};
  };
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(AwaitHost("ps:0", "pod-0", absl::InfiniteFuture(), lookup).ok());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, Not(HasSubstr("\x1b")));
}

TEST(AwaitHost, ANameThatComesLaterIsWaitedFor) {
  int num_asked = 0;
  const auto lookup = [&](const std::string& host) -> absl::StatusOr<HostAddresses> {
    if (++num_asked < 3) return absl::NotFoundError("not yet");
    return HostAddresses{{host}, false};
  };
  ::testing::internal::CaptureStderr();
  const HostAddresses found = AwaitHost("ps:0", "pod-0", absl::InfiniteFuture(), lookup).value();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("weir: ps:0 waits until it resolves: not yet"));
  EXPECT_EQ(num_asked, 3);
  EXPECT_THAT(found.addresses, Contains("pod-0"));
}

TEST(AwaitHost, TheDeadlineEndsIt) {
  const auto lookup = [](const std::string&) -> absl::StatusOr<HostAddresses> {
    return absl::NotFoundError("host name 'pod-0': unknown");
  };
  const absl::Status status =
      AwaitHost("ps:0", "pod-0", absl::Now() + absl::Milliseconds(120), lookup).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ps:0: host name 'pod-0': unknown; it did not resolve"));
}

}  // namespace
}  // namespace weir
