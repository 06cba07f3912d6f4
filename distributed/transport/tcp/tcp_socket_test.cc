#include "distributed/transport/tcp/tcp_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST(TcpSocketTest, RangesOfPortsAreRead) {
  EXPECT_EQ(ParsePortRange("")->first, 0);
  EXPECT_EQ(ParsePortRange("7000")->first, 7000);
  EXPECT_EQ(ParsePortRange("7000")->last, 7000);
  EXPECT_EQ(ParsePortRange("7000-7099")->last, 7099);
  for (const char* text :
       {"0", "-1", "x", "7000-", "-7000", "7001-7000", "1-2-3", "65536", "7000-70000", " "}) {
    const absl::Status status = ParsePortRange(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST(TcpSocketTest, TheFirstFreePortOfARangeIsTaken) {
  const ListeningSockets taken = ListenAtOneOf("127.0.0.1", PortRange()).value();
  const absl::StatusOr<ListeningSockets> next = ListenAtOneOf("127.0.0.1", {taken.port, taken.port + 50});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_GT(next->port, taken.port);
  const absl::Status full = ListenAtOneOf("127.0.0.1", {taken.port, taken.port}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kAlreadyExists);
  for (const int fd : {taken.fds[0], next->fds[0]}) close(fd);
}

TEST(TcpSocketTest, ConnectsToTheHostOfAnAddress) {
  const ListeningSockets listening = ListenAtOneOf("127.0.0.1", PortRange()).value();
  const int fd = BeginToConnect("ipv4:127.0.0.1:9", listening.port).value();
  pollfd connected{fd, POLLOUT, 0};
  EXPECT_EQ(poll(&connected, 1, 20'000), 1);
  const int accepted = accept(listening.fds[0], nullptr, nullptr);
  EXPECT_GE(accepted, 0);
  for (const int open : {fd, accepted, listening.fds[0]}) close(open);
}

TEST(TcpSocketTest, NothingIsLookedUpOrMadeOfNonsense) {
  for (const char* address : {"", "127.0.0.1:80", "ipv4:localhost:80", "unix:/tmp/x", "ipv4:127.0.0.1",
                              "ipv6:%5B", "ipv4:\n:80", "inproc:1"}) {
    EXPECT_EQ(BeginToConnect(address, 80).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST(TcpSocketTest, Ipv6AddressesAreTakenAsGrpcWritesThem) {
  const absl::StatusOr<ListeningSockets> listening = ListenAtOneOf("::1", PortRange());
  if (!listening.ok()) GTEST_SKIP() << "this machine has no IPv6";
  const absl::StatusOr<int> fd = BeginToConnect("ipv6:%5B::1%5D:9", listening->port);
  EXPECT_TRUE(fd.ok()) << fd.status();
  close(*fd);
  close(listening->fds[0]);
}

}  // namespace
}  // namespace weir
