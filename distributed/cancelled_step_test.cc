// A step that is cancelled, and a plan that is dropped, while they wait for their turn at their task.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
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
#include "session/local_worker.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// Keeps the first call of a method that it is asked for until the test lets it begin.
class HoldingTransport final : public Transport {
 public:
  // `ends_it`: the method whose answer is waited for before.
  HoldingTransport(Transport& wrapped, std::string held_method, std::string ends_it)
      : wrapped_(wrapped), held_method_(std::move(held_method)), ends_it_(std::move(ends_it)) {}

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
  absl::Notification is_held, is_ended;

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
      if (method() != transport_.held_method_ || !transport_.holds.exchange(false)) {
        return call_->Compute(std::move(work));
      }
      transport_.held_ = std::move(work);
      transport_.is_held.Notify();
    }
    void Reply(absl::StatusOr<Frame> reply) override {
      const bool ends_it = method() == transport_.ends_it_;
      call_->Reply(std::move(reply));
      if (ends_it && !transport_.is_ended.HasBeenNotified()) transport_.is_ended.Notify();
    }
    void OnCancel(std::function<void()> callback) override { call_->OnCancel(std::move(callback)); }

   private:
    HoldingTransport& transport_;
    const std::shared_ptr<IncomingCall> call_;
  };

  Transport& wrapped_;
  const std::string held_method_, ends_it_;
  absl::AnyInvocable<void()> held_;
};

// A ps that is behind a HoldingTransport, and a worker.
struct Cluster {
  Cluster(std::string held_method, std::string ends_it)
      : inproc(MakeInprocTransport(MakeInprocNetwork())),
        holding(*inproc, std::move(held_method), std::move(ends_it)) {
    const std::vector<int> ports = FindFreePorts(2).value();
    EXPECT_TRUE(spec.AddTask({"ps", 0}, absl::StrCat("127.0.0.1:", ports[0])).ok());
    EXPECT_TRUE(spec.AddTask({"worker", 0}, absl::StrCat("127.0.0.1:", ports[1])).ok());
    ps = Start({"ps", 0}, holding);
    worker = Start({"worker", 0}, *inproc);
  }

  ClusterSpec spec;
  const std::unique_ptr<Transport> inproc;
  HoldingTransport holding;
  std::unique_ptr<Server> ps, worker;

 private:
  std::unique_ptr<Server> Start(const TaskName& task, Transport& transport) {
    ServerOptions options;
    options.num_threads = 1;
    options.transport = &transport;
    return Server::Start(TaskConfig::Create(spec, task).value(), options).value();
  }
};

// Its session has given up, or was closed: nobody would drop the plan after that.
TEST(CancelledStepTest, APlanThatIsDroppedBeforeItIsCompiledIsNotKept) {
  Cluster cluster(kRegisterPartitionMethod, kDeregisterPartitionMethod);
  Worker* const remote = cluster.worker->target().workers[1];
  cluster.holding.holds = true;
  absl::Status registered;
  std::thread session([&] {
    PartitionSpec spec;
    spec.plan = 5;
    spec.session = 3;
    registered = remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(60));
  });
  cluster.holding.is_held.WaitForNotification();
  remote->DeregisterPartition(5);
  remote->EndSession(3);
  cluster.holding.is_ended.WaitForNotification();
  cluster.holding.LetBegin();
  session.join();
  EXPECT_TRUE(absl::IsAborted(registered)) << registered;
  EXPECT_EQ(cluster.ps->local_worker().num_plans(), 0);
  EXPECT_EQ(cluster.ps->local_worker().num_sessions(), 0);
}

// Nothing of the step crosses between devices, so only the service knows of it.
TEST(CancelledStepTest, AStepThatIsCancelledBeforeItBeginsDoesNotRun) {
  Cluster cluster(kRunPartitionMethod, kCancelStepMethod);
  HoldingTransport& holding = cluster.holding;
  Server* const worker = cluster.worker.get();
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
  holding.is_ended.WaitForNotification();
  holding.LetBegin();

  EXPECT_THAT(std::string(step->Await().status().message()), HasSubstr("no longer wanted"));
  const auto value = session->Run({}, {read});
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)[0].scalar<float>(), 0);
}

}  // namespace
}  // namespace weir
