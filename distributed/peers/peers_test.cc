#include "distributed/peers/peers.h"

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "distributed/cluster_spec.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gtest/gtest.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

// Counts the channels that are opened.
class CountsChannels final : public Transport {
 public:
  explicit CountsChannels(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    ++num_opened;
    return transport_->Connect(peer, address);
  }
  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return transport_->Listen(address, std::move(handler), std::move(placement));
  }

  int num_opened = 0;

 private:
  const std::unique_ptr<Transport> transport_;
};

class PeersTest : public ::testing::Test {
 protected:
  PeersTest()
      : cluster_(ClusterSpec::FromFlag("ps|127.0.0.1:5002,worker|127.0.0.1:5000").value()),
        transport_(MakeInprocTransport(MakeInprocNetwork())),
        membership_({.self = {"ps", 0}, .cluster = cluster_}),
        peers_(cluster_, transport_, membership_),
        listener_(transport_.Listen("127.0.0.1:5000", Answer).value()) {}

  static void Answer(std::shared_ptr<IncomingCall> call) {
    WireWriter writer;
    EncodeReplyStatus(kLife, absl::OkStatus(), &writer);
    call->Reply(Frame{writer.Take(), {}});
  }
  void Call() {
    const absl::Status status = peers_.CallAndWait(worker_, kListDevicesMethod, "", {}, {}).status();
    EXPECT_TRUE(status.ok()) << status;
  }

  static constexpr Incarnation kLife = 11;
  const TaskName worker_{"worker", 0};
  const ClusterSpec cluster_;
  CountsChannels transport_;
  Membership membership_;
  Peers peers_;
  const std::unique_ptr<Listener> listener_;
};

// Its connection may be to a machine that is gone, and never end.
TEST_F(PeersTest, ALostPeerIsConnectedToAnew) {
  Call();
  Call();
  EXPECT_EQ(transport_.num_opened, 1);
  peers_.OnLoss(worker_, kLife, absl::UnavailableError("no sign of life"));
  Call();
  Call();
  EXPECT_EQ(transport_.num_opened, 2);
}

// Another may know of a life that is over, which an authority that was just restarted has not heard of.
TEST(SupersededTest, OnlyTheAuthoritySaysThatATaskHasASuccessor) {
  const ClusterSpec cluster =
      ClusterSpec::FromFlag("ps|127.0.0.1:5002;127.0.0.1:5003,worker|127.0.0.1:5000").value();
  const std::unique_ptr<Transport> transport = MakeInprocTransport(MakeInprocNetwork());
  Membership membership({.self = {"worker", 0}, .cluster = cluster});
  membership.SetIncarnation(11);
  Peers peers(cluster, *transport, membership);
  const auto refuse = [&membership](const std::shared_ptr<IncomingCall>& call) {
    WireWriter writer;
    EncodeReplyStatus(5, membership.SupersededBy({"worker", 0}, 11, 12), &writer);
    call->Reply(Frame{writer.Take(), {}});
  };
  const auto authority = transport->Listen("127.0.0.1:5002", refuse).value();
  const auto other = transport->Listen("127.0.0.1:5003", refuse).value();
  const absl::Status refused = peers.CallAndWait({"ps", 1}, kListDevicesMethod, "", {}, {}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(membership.superseded().ok()) << membership.superseded();
  const absl::Status ended = peers.CallAndWait({"ps", 0}, kListDevicesMethod, "", {}, {}).status();
  EXPECT_TRUE(IsSuperseded(ended)) << ended;
  EXPECT_TRUE(IsSuperseded(membership.superseded()));
}

}  // namespace
}  // namespace weir
