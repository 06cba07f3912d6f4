// A step that is cancelled while it waits for its turn at its task.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "distributed/launch/free_ports.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/server.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// Keeps the first step that it is asked for until the test lets it begin.
class HoldingTransport final : public Transport {
 public:
  explicit HoldingTransport(Transport& wrapped) : wrapped_(wrapped) {}

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    return wrapped_.Connect(peer, address);
  }
  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return wrapped_.Listen(
        address,
        [this, handler = std::move(handler)](std::shared_ptr<IncomingCall> call) {
          handler(std::make_shared<Call>(*this, std::move(call)));
        },
        std::move(placement));
  }
  void LetBegin() { std::exchange(held_, nullptr)(); }

  std::atomic<bool> holds{false};
  absl::Notification is_held, is_cancelled;

 private:
  class Call final : public IncomingCall {
   public:
    Call(HoldingTransport& transport, std::shared_ptr<IncomingCall> call)
        : transport_(transport), call_(std::move(call)) {}
    const std::string& method() const override { return call_->method(); }
    Frame& request() override { return call_->request(); }
    absl::Time deadline() const override { return call_->deadline(); }
    std::string client() const override { return call_->client(); }
    void Compute(absl::AnyInvocable<void()> work) override {
      if (method() != kRunPartitionMethod || !transport_.holds.exchange(false)) {
        return call_->Compute(std::move(work));
      }
      transport_.held_ = std::move(work);
      transport_.is_held.Notify();
    }
    void Reply(absl::StatusOr<Frame> reply) override {
      const bool is_cancel = method() == kCancelStepMethod;
      call_->Reply(std::move(reply));
      if (is_cancel && !transport_.is_cancelled.HasBeenNotified()) transport_.is_cancelled.Notify();
    }
    void OnCancel(std::function<void()> callback) override { call_->OnCancel(std::move(callback)); }

   private:
    HoldingTransport& transport_;
    const std::shared_ptr<IncomingCall> call_;
  };

  Transport& wrapped_;
  absl::AnyInvocable<void()> held_;
};

// Nothing of the step crosses between devices, so only the service knows of it.
TEST(CancelledStepTest, AStepThatIsCancelledBeforeItBeginsDoesNotRun) {
  const std::vector<int> ports = FindFreePorts(2).value();
  ClusterSpec cluster;
  ASSERT_TRUE(cluster.AddTask({"ps", 0}, absl::StrCat("127.0.0.1:", ports[0])).ok());
  ASSERT_TRUE(cluster.AddTask({"worker", 0}, absl::StrCat("127.0.0.1:", ports[1])).ok());
  const std::unique_ptr<Transport> inproc = MakeInprocTransport(MakeInprocNetwork());
  HoldingTransport holding(*inproc);
  const auto start = [&](const TaskName& task, Transport& transport) {
    ServerOptions options;
    options.num_threads = 1;
    options.transport = &transport;
    return Server::Start(TaskConfig::Create(cluster, task).value(), options).value();
  };
  auto ps = start({"ps", 0}, holding);
  auto worker = start({"worker", 0}, *inproc);

  GraphBuilder g(worker->runtime().ops());
  auto device = g.DeviceScope("/job:ps/task:0");
  const auto constant = [&](float value) {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}});
  };
  const Output handle = g.AddOp(
      "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}});
  Node* const init = g.AddNode("AssignVariableOp", {handle, constant(0)});
  Node* const add = g.AddNode("AssignAddVariableOp", {handle, constant(1)});
  const Output read = g.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  auto session = worker->CreateSession(g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {init}).ok());
  auto prepared = session->Prepare({}, {}, {add}).value();

  holding.holds = true;
  const std::shared_ptr<Step> step = prepared->Start({});
  holding.is_held.WaitForNotification();
  step->Cancel(absl::AbortedError("no longer wanted"));
  holding.is_cancelled.WaitForNotification();
  holding.LetBegin();

  EXPECT_THAT(std::string(step->Await().status().message()), HasSubstr("no longer wanted"));
  const auto value = session->Run({}, {read});
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)[0].scalar<float>(), 0);
}

}  // namespace
}  // namespace weir
