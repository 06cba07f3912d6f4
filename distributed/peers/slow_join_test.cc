// An authority whose answers take longer than a heartbeat is waited for.
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/peers/heartbeats.h"
#include "distributed/peers/probes.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/fault/fault_transport.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(SlowJoinTest, ATaskWithAShortLeaseJoinsAnAuthorityThatIsSlow) {
  constexpr Incarnation kGranted = 77;
  constexpr absl::Duration kInterval = absl::Milliseconds(10);
  const ClusterSpec cluster = ClusterSpec::FromFlag("ps|127.0.0.1:5002,worker|127.0.0.1:5000").value();
  FaultTransport slow(MakeInprocTransport(MakeInprocNetwork()));
  const auto listener =
      slow.Listen("127.0.0.1:5002",
                  [](std::shared_ptr<IncomingCall> call) {
                    WireWriter writer;
                    EncodeReplyStatus(1, absl::OkStatus(), &writer);
                    EncodeJoinReply({.life = kGranted, .view = {.number = {1, 1}}}, &writer);
                    call->Reply(Frame{writer.Take(), {}});
                  })
          .value();
  slow.Add({.action = Fault::Action::kDelay, .delay = 10 * kInterval});
  Membership membership({.self = {"worker", 0}, .cluster = cluster, .lease = 5 * kInterval});
  Peers peers(cluster, slow, membership);
  Probes probes(peers);
  const Heartbeats heartbeats(peers, probes, kInterval);
  for (const absl::Time end = absl::Now() + absl::Minutes(1);
       membership.incarnation() == 0 && absl::Now() < end;) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(membership.incarnation(), kGranted);
}

}  // namespace
}  // namespace weir
