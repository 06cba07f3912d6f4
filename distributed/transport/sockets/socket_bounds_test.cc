// What the socket transport keeps for calls that are given up or lost, and what it does without descriptors,
// threads or Unix sockets.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/transport/host/unix_socket.h"
#include "distributed/transport/sockets/socket_poller.h"
#include "distributed/transport/sockets/socket_transport.h"
#include "distributed/transport/sockets/test_socket_transport.h"
#include "distributed/transport/wire.h"
#include "graph/types/tensor.h"
#include "gtest/gtest.h"
#include "kernels/no_more_threads.h"

namespace weir {
namespace {

// The threads that hand messages on overtake each other; a large payload that is being fetched makes it sure.
TEST_F(UnixSocketTest, ACallIsCancelledThoughItsRequestIsStillBeingFetched) {
  absl::Notification has_come_later, is_cancelled;
  auto listener = transport_
                      ->Listen(
                          "127.0.0.1:0",
                          [&](std::shared_ptr<IncomingCall> call) {
                            if (call->request().payloads.empty()) return has_come_later.Notify();
                            call->OnCancel([call, &is_cancelled] { is_cancelled.Notify(); });
                          },
                          [&](absl::string_view, absl::string_view, size_t, size_t) {
                            has_come_later.WaitForNotificationWithTimeout(absl::Seconds(20));
                            return Payload();
                          })
                      .value();
  const FoundSockets sockets = FindSockets(*network_, listener->address());
  const std::string proof = "sixteen letters.", lent(100'000, 'l');
  RawClient client(sockets);
  ASSERT_TRUE(client.Greet(proof.data(), proof));
  ASSERT_TRUE(client.IsWelcome(/*and_may_lend=*/true));
  client.Send(LendingRequest(lent.data(), lent.size()) + Bytes(Kind::kCancel, 1, "") +
              Request(2, "/weir.T/Echo", FrameWith("")));
  EXPECT_TRUE(is_cancelled.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

TEST_F(UnixSocketTest, RequestsThatWereGivenUpBeforeTheyLeftAreDropped) {
  absl::Notification release;
  auto transport = MakeSocketTransport(MakeNetwork(), {.num_server_threads = 1, .lent_bytes = 0}).value();
  auto listener = transport
                      ->Listen("127.0.0.1:0",
                               [&](std::shared_ptr<IncomingCall> call) {
                                 if (call->method() == "/weir.T/Hold") release.WaitForNotification();
                                 call->Reply(Frame());
                               })
                      .value();
  auto channel = transport->Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*channel));
  absl::Notification hold_is_done;
  channel->Call("/weir.T/Hold", {}, {}, [&](absl::StatusOr<Frame>) { hold_is_done.Notify(); });
  std::vector<Tensor> tensors;
  for (int i = 0; i < 20; ++i) {
    tensors.emplace_back(DType::kFloat32, Shape({1'000'000}));
    Frame request;
    request.payloads.push_back(Payload::OfTensor(tensors.back()));
    absl::Notification done;
    auto call = channel->Call("/weir.T/Large", std::move(request), {}, [&](absl::StatusOr<Frame> reply) {
      EXPECT_TRUE(absl::IsCancelled(reply.status()));
      done.Notify();
    });
    call->Cancel();
    done.WaitForNotification();
  }
  // One may have left in part, with those that fit into the socket before it.
  EXPECT_GE(std::count_if(tensors.begin(), tensors.end(),
                          [](const Tensor& tensor) { return tensor.has_exclusive_buffer(); }),
            15);
  release.Notify();
  hold_is_done.WaitForNotification();
  EXPECT_TRUE(CallAndWait(*channel, "/weir.T/Echo").ok());
}

// No descriptor with this number or a larger one can be opened while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit lowered = before_;
    lowered.rlim_cur = static_cast<rlim_t>(limit);
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(UnixSocketTest, AListenerWithoutDescriptorsIsCalledOverTheNetwork) {
  // It stays: the descriptors of a connection that is closed are given back some time later, and would be
  // left for the listener.
  const auto other = network_->Connect({"ps", 0}, listener_->address()).value();
  ASSERT_TRUE(CallAndWait(*other, "/weir.T/Echo").ok());
  auto channel = transport_->Connect({"ps", 0}, listener_->address()).value();
  // A call of the network alone, so that it has the descriptors that it needs.
  ASSERT_TRUE(CallAndWait(*channel, "/tensorflow.X/Y").ok());
  {
    std::vector<int> taken;  // those between others
    const int last = dup(0);
    for (int fd = dup(0); fd >= 0 && fd < last + 64; fd = dup(0)) taken.push_back(fd);
    // One descriptor is left: for the client's end.
    const DescriptorLimit limit(taken.back() + 1);
    close(last);
    for (int i = 0; i < 10; ++i) {
      const absl::Status status = CallAndWait(*channel, "/weir.T/Echo").status();
      EXPECT_TRUE(status.ok()) << status;
    }
    EXPECT_FALSE(UsesSocket(*channel));
    for (const int fd : taken) close(fd);
  }
  EXPECT_TRUE(AwaitSocket(*channel));
}

// The connection may be closing on a thread of its own when its channel goes.
TEST(SocketTransport, WithoutThreadsThereIsNone) {
  std::unique_ptr<Transport> network = MakeNetwork();
  const NoMoreThreads none;
  const absl::Status poller = SocketPoller::Start({.num_threads = 2}, absl::ZeroDuration()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(poller)) << poller;
  const absl::Status transport = MakeSocketTransport(std::move(network), {}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(transport)) << transport;
}

TEST_F(UnixSocketTest, NoDoneIsCalledAfterTheChannelIsGoneThoughTheListenerGoesToo) {
  for (int round = 0; round < 50; ++round) {
    absl::Mutex mutex;
    std::vector<std::shared_ptr<IncomingCall>> held;
    auto listener = transport_
                        ->Listen("127.0.0.1:0",
                                 [&](std::shared_ptr<IncomingCall> call) {
                                   absl::MutexLock lock(&mutex);
                                   if (call->method() == "/weir.T/Hold") held.push_back(std::move(call));
                                 })
                        .value();
    auto channel = transport_->Connect({"ps", 0}, listener->address()).value();
    ASSERT_TRUE(AwaitSocket(*channel));
    auto num_done = std::make_shared<std::atomic<int>>(0);
    constexpr int kNumCalls = 20;
    for (int i = 0; i < kNumCalls; ++i) {
      channel->Call("/weir.T/Hold", {}, {}, [num_done](absl::StatusOr<Frame> reply) {
        EXPECT_FALSE(reply.ok());
        ++*num_done;
      });
    }
    std::thread shutdown([&] { listener->Shutdown(); });
    while (*num_done == 0 && round % 2 == 0) std::this_thread::yield();
    channel.reset();
    EXPECT_EQ(*num_done, kNumCalls) << "in round " << round;
    shutdown.join();
    held.clear();
  }
}

TEST_F(UnixSocketTest, AListenerThatHangsDoesNotKeepWhatWasLentWithoutBound) {
  auto transport = MakeSocketTransport(MakeNetwork(), {.max_abandoned_bytes = 1'000'000}).value();
  absl::Mutex mutex;
  std::vector<std::shared_ptr<IncomingCall>> held;
  auto listener = transport
                      ->Listen("127.0.0.1:0",
                               [&](std::shared_ptr<IncomingCall> call) {
                                 if (call->method() == "/weir.T/Echo") return call->Reply(Frame());
                                 absl::MutexLock lock(&mutex);
                                 held.push_back(std::move(call));
                               })
                      .value();
  auto channel = transport->Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*channel));
  std::vector<Tensor> tensors;
  const auto num_kept = [&] {
    return std::count_if(tensors.begin(), tensors.end(),
                         [](const Tensor& tensor) { return !tensor.has_exclusive_buffer(); });
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(num_kept(), i);
    tensors.emplace_back(DType::kFloat32, Shape({100'000}));
    Frame request;
    request.payloads.push_back(Payload::OfTensor(tensors.back()));
    absl::Notification done;
    auto call =
        channel->Call("/weir.T/Hold", std::move(request), {}, [&](absl::StatusOr<Frame>) { done.Notify(); });
    call->Cancel();
    done.WaitForNotification();
  }
  EXPECT_EQ(num_kept(), 0);
  EXPECT_TRUE(AwaitSocket(*channel));
  {
    absl::MutexLock lock(&mutex);
    held.clear();
  }
}

// From here on this process has no Unix sockets, as under systemd's RestrictAddressFamilies.
bool RenounceUnixSockets() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {static_cast<unsigned short>(std::size(filter)), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// The exit code of a process that has renounced them: 0 when its calls are answered all the same.
int CallWithoutUnixSockets() {
  if (!RenounceUnixSockets() || ListenAtUnixSocket("weir-test").ok()) return 2;
  const auto transport = MakeSocketTransport(MakeNetwork()).value();
  const auto listener = transport->Listen(
      "127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) { call->Reply(FrameWith("answer")); });
  if (!listener.ok()) return 3;
  const auto channel = transport->Connect({"ps", 0}, (*listener)->address()).value();
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<Frame> reply = CallAndWait(*channel, "/weir.T/Echo");
    if (!reply.ok() || reply->header != "answer") return 4;
  }
  return UsesSocket(*channel) ? 5 : 0;
}

TEST(UnixSocketDeathTest, WhereUnixSocketsAreForbiddenTheNetworkDoesItAll) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(CallWithoutUnixSockets()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weir
