#include "distributed/metrics/http_listener.h"

#include <climits>
#include <random>

#include "absl/strings/str_cat.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpListenerTest : public ::testing::Test {
 protected:
  void Start(absl::Duration timeout = absl::Seconds(20), int max_descriptors = INT_MAX) {
    const auto pages = [](absl::string_view path) -> std::optional<HttpPage> {
      if (path == "/good") return HttpPage{.body = "the page\n"};
      if (path == "/large") return HttpPage{.body = std::string(20 << 20, 'x')};
      return std::nullopt;
    };
    listener_ = HttpListener::Start("127.0.0.1:0", pages, timeout, max_descriptors).value();
  }

  std::string Ask(const std::string& request) {
    RawConnection client(listener_->port());
    client.Write(request);
    EXPECT_TRUE(client.AwaitClose()) << request.substr(0, 80);
    return client.heard();
  }

  void ExpectThatItServes() {
    EXPECT_THAT(Ask("GET /good HTTP/1.1\r\nHost: x\r\n\r\n"), EndsWith("the page\n"));
  }

  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, PagesAreServed) {
  Start();
  EXPECT_EQ(Ask("GET /good?x=1 HTTP/1.0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 9\r\n"
            "Connection: close\r\n\r\nthe page\n");
  EXPECT_THAT(Ask("HEAD /good HTTP/1.1\r\n\r\n"), Not(HasSubstr("the page")));
  RawConnection slow(listener_->port());  // however it is cut
  for (const char c : std::string("GET /good HTTP/1.1\r\n\r\n")) slow.Write(std::string(1, c));
  EXPECT_TRUE(slow.AwaitClose());
  EXPECT_THAT(slow.heard(), EndsWith("the page\n"));
  ExpectThatItServes();
}

TEST_F(HttpListenerTest, WhatIsNoRequestIsRefused) {
  Start();
  for (const auto& [request, answer] : std::vector<std::pair<std::string, std::string>>{
           {"GET /none HTTP/1.1\r\n\r\n", "404"},
           {"GET /../../etc/passwd HTTP/1.1\r\n\r\n", "404"},
           {"POST /good HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "405"},
           {"DELETE /good HTTP/1.1\r\n\r\n", "405"},
           {"\r\n\r\n", "400"},
           {"GET\r\n\r\n", "400"},
           {"GET /good\r\n\r\n", "400"},
           {"GET  /good HTTP/1.1\r\n\r\n", "400"},
           {"GET good HTTP/1.1\r\n\r\n", "400"},
           {"GET http://x/good HTTP/1.1\r\n\r\n", "400"},
           {"GET /good HTTP/2\r\n\r\n", "400"},
           {"GET /good FTP/1.1\r\n\r\n", "400"},
           {std::string("GET /go\0od HTTP/1.1\r\n\r\n", 23), "404"},
           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
           {std::string("\x16\x03\x01\x02\r\n\r\n", 8), "400"},
           {absl::StrCat("GET /", std::string(100'000, 'a')), "431"},
           {absl::StrCat("GET /good HTTP/1.1\r\n", std::string(100'000, 'a')), "431"}}) {
    EXPECT_THAT(Ask(request), StartsWith(absl::StrCat("HTTP/1.1 ", answer, " "))) << request.substr(0, 40);
  }
  ExpectThatItServes();
}

TEST_F(HttpListenerTest, SlowClientsAreClosed) {
  Start(absl::Milliseconds(50));
  RawConnection silent(listener_->port()), half(listener_->port());
  half.Write("GET /good HTTP/1.1\r\nHost:");
  EXPECT_TRUE(silent.AwaitClose());
  EXPECT_TRUE(half.AwaitClose());
}

TEST_F(HttpListenerTest, ManyConnectionsLeaveRoomForAnother) {
  Start();
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 500; ++i) idle.push_back(std::make_unique<RawConnection>(listener_->port()));
  ExpectThatItServes();
  int num_closed = 0;
  for (const auto& connection : idle) num_closed += connection->AwaitClose(absl::ZeroDuration());
  EXPECT_GE(num_closed, 500 - static_cast<int>(HttpListener::kMaxConnections));
}

// What is above belongs to files.
TEST_F(HttpListenerTest, NobodyIsAcceptedWhileTooManyDescriptorsAreInUse) {
  Start(absl::Seconds(20), /*max_descriptors=*/1);
  RawConnection client(listener_->port());
  client.Write("GET /good HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(client.AwaitClose(absl::Milliseconds(500)));
  EXPECT_EQ(client.heard(), "");
}

TEST_F(HttpListenerTest, AClientThatReadsNothingKeepsNobodyWaiting) {
  Start();
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(listener_->port()))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET /large HTTP/1.1\r\n\r\n";
  ASSERT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  for (int i = 0; i < 10; ++i) ExpectThatItServes();
  close(fd);
}

TEST_F(HttpListenerTest, RandomBytesAreSurvived) {
  Start();
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string noise(random() % 20'000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 2 == 0) noise += "\r\n\r\n";
    RawConnection(listener_->port()).Write(noise);
  }
  ExpectThatItServes();
}

}  // namespace
}  // namespace weir
