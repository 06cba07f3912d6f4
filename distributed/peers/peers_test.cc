#include "distributed/peers/peers.h"

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "distributed/cluster_spec.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gtest/gtest.h"

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

}  // namespace
}  // namespace weir
