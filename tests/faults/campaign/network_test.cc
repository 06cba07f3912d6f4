#include "tests/faults/campaign/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A server, and clients of it through one link.
class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest() : server_(socket(AF_INET, SOCK_STREAM, 0)), network_(Network::Start(1).value()) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(server_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(server_, 8), 0);
    EXPECT_EQ(getsockname(server_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    link_ = network_->AddLink(ntohs(address.sin_port)).value();
    Connect();
  }
  ~NetworkTest() override {
    close(client_);
    close(accepted_);
    close(server_);
  }
  void Connect() {
    client_ = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Loopback(link_);
    EXPECT_EQ(connect(client_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    accepted_ = accept(server_, nullptr, nullptr);
  }
  static void Send(int fd, const std::string& bytes) {
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // What comes; "RST", "end", or "nothing" within the time.
  static std::string Receive(int fd, int timeout_ms = 30'000) {
    pollfd event = {fd, POLLIN, 0};
    if (poll(&event, 1, timeout_ms) == 0) return "nothing";
    char bytes[100];
    const ssize_t count = recv(fd, bytes, sizeof(bytes), 0);
    if (count < 0) return errno == ECONNRESET ? "RST" : "error";
    return count == 0 ? "end" : std::string(bytes, static_cast<size_t>(count));
  }

  const int server_;
  const std::unique_ptr<Network> network_;
  int link_ = 0;
  int client_ = -1, accepted_ = -1;
};

TEST_F(NetworkTest, CarriesBothDirections) {
  Send(client_, "question");
  EXPECT_EQ(Receive(accepted_), "question");
  Send(accepted_, "answer");
  EXPECT_EQ(Receive(client_), "answer");
  close(accepted_);
  EXPECT_EQ(Receive(client_), "end");
  accepted_ = -1;
}

TEST_F(NetworkTest, AStalledDirectionLosesNothing) {
  network_->SetFault(link_, {.stalls_requests = true, .delay = {}, .jitter = {}});
  Send(accepted_, "answer");
  EXPECT_EQ(Receive(client_), "answer");
  Send(client_, "question");
  EXPECT_EQ(Receive(accepted_, 50), "nothing");
  network_->SetFault(link_, {});
  EXPECT_EQ(Receive(accepted_), "question");
}

TEST_F(NetworkTest, AResetIsSeenByBothSides) {
  network_->Reset(link_);
  EXPECT_EQ(Receive(client_), "RST");
  EXPECT_EQ(Receive(accepted_), "RST");
}

TEST_F(NetworkTest, CutsInTheMiddle) {
  network_->SetFault(link_, {.delay = {}, .jitter = {}, .cut_after = 3});
  Send(client_, "question");
  EXPECT_EQ(Receive(accepted_), "que");
  EXPECT_EQ(Receive(accepted_), "RST");
}

TEST_F(NetworkTest, AnAbandonedConnectionIsSilentAndANewOneGoesElsewhere) {
  const int old_client = client_, old_accepted = accepted_;
  network_->Abandon(link_);
  Send(client_, "question");
  EXPECT_EQ(Receive(accepted_, 50), "nothing");
  Connect();
  Send(client_, "another");
  EXPECT_EQ(Receive(accepted_), "another");
  close(old_accepted);
  EXPECT_EQ(Receive(old_client, 50), "nothing") << "not even its end";
  close(old_client);
}

TEST_F(NetworkTest, DelaysKeepTheOrder) {
  network_->SetFault(link_, {.delay = absl::Milliseconds(20), .jitter = absl::Milliseconds(30)});
  const absl::Time begin = absl::Now();
  Send(client_, "a");
  std::string received = Receive(accepted_);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(20));
  for (const char* text : {"b", "c", "d"}) Send(client_, text);
  while (received.size() < 4) received += Receive(accepted_);
  EXPECT_EQ(received, "abcd");
}

}  // namespace
}  // namespace weir
