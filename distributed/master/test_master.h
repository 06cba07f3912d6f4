// What tests of the master begin with: a master over the worker of this process, and a client that calls it
// without a network.
#pragma once

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "distributed/master/master_service.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/proto/master.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "gtest/gtest.h"
#include "session/local_worker.h"
#include "session/runtime.h"

namespace weir {

// A call that is made on the calling thread.
class TestClientCall final : public IncomingCall {
 public:
  TestClientCall(absl::string_view method, std::string bytes, absl::Time deadline)
      : method_(absl::StrCat("/tensorflow.MasterService/", method)), deadline_(deadline) {
    request_.payloads.push_back(Payload::OfString(std::move(bytes)));
  }

  const std::string& method() const override { return method_; }
  Frame& request() override { return request_; }
  absl::Time deadline() const override { return deadline_; }
  std::string client() const override { return "test"; }
  void Compute(absl::AnyInvocable<void()> work) override { work(); }
  void Reply(absl::StatusOr<Frame> reply) override {
    absl::MutexLock lock(&mutex_);
    if (has_reply_) return;
    reply_ = std::move(reply);
    has_reply_ = true;
  }
  void OnCancel(std::function<void()> callback) override {
    absl::MutexLock lock(&mutex_);
    on_cancel_ = std::move(callback);
  }

  // The client goes away.
  void Cancel() {
    std::function<void()> callback;
    {
      absl::MutexLock lock(&mutex_);
      callback = on_cancel_;
    }
    if (callback) callback();
  }
  bool has_reply() const {
    absl::MutexLock lock(&mutex_);
    return has_reply_;
  }
  // Waits for it: the bytes.
  absl::StatusOr<std::string> Await() {
    absl::MutexLock lock(&mutex_);
    if (!RealEnvironment().Await(mutex_, absl::Condition(&has_reply_),
                                 RealEnvironment().Now() + absl::Minutes(2))) {
      return absl::DeadlineExceededError("the test waits for an answer that does not come");
    }
    if (!reply_.ok()) return reply_.status();
    std::string bytes;
    for (const Payload& payload : reply_->payloads) absl::StrAppend(&bytes, payload.bytes());
    return bytes;
  }

 private:
  const std::string method_;
  const absl::Time deadline_;
  Frame request_;
  mutable absl::Mutex mutex_;
  bool has_reply_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<Frame> reply_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);
};

class TestMaster {
 public:
  // `others`: workers of other tasks; borrowed. `options.threads`: null for those of the runtime.
  explicit TestMaster(MasterOptions options = {}, RuntimeOptions runtime = {.job = "local", .num_threads = 1},
                      std::vector<Worker*> others = {})
      : runtime_(Runtime::Create(runtime).value()), worker_(*runtime_, runtime_->task()) {
    options.ops = &runtime_->ops();
    options.environment = &RealEnvironment();
    if (options.threads == nullptr) options.threads = &runtime_->step_threads();
    options.host = "test host";
    options.target = [this, others = std::move(others)] {
      SessionTarget target;
      target.workers = {&worker_};
      target.workers.insert(target.workers.end(), others.begin(), others.end());
      target.default_task = runtime_->task();
      target.kernels = &runtime_->kernels();
      return target;
    };
    master_ = std::make_unique<MasterService>(options);
  }

  MasterService& master() { return *master_; }
  LocalWorker& worker() { return worker_; }
  const OpRegistry& ops() const { return runtime_->ops(); }

  std::shared_ptr<TestClientCall> Start(absl::string_view method, std::string bytes,
                                        absl::Time deadline = absl::InfiniteFuture()) {
    auto call = std::make_shared<TestClientCall>(method, std::move(bytes), deadline);
    master_->Handle(call);
    return call;
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(absl::string_view method, const Request& request) {
    const absl::StatusOr<std::string> bytes = Start(method, request.SerializeAsString())->Await();
    if (!bytes.ok()) return bytes.status();
    Response response;
    EXPECT_TRUE(response.ParseFromString(*bytes));
    return response;
  }

  absl::StatusOr<std::string> CreateSession(const tensorflow::GraphDef& graph,
                                            const tensorflow::ConfigProto& config = {}) {
    tensorflow::CreateSessionRequest request;
    *request.mutable_graph_def() = graph;
    *request.mutable_config() = config;
    const auto response = Call<tensorflow::CreateSessionResponse>("CreateSession", request);
    if (!response.ok()) return response.status();
    return response->session_handle();
  }

  absl::StatusOr<tensorflow::RunStepResponse> Run(const tensorflow::RunStepRequest& request) {
    return Call<tensorflow::RunStepResponse>("RunStep", request);
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  std::unique_ptr<MasterService> master_;
};

inline tensorflow::GraphDef GraphDefOf(const Graph& graph) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(ExportGraphDef(graph, {}, &def).ok());
  return def;
}

inline tensorflow::RunStepRequest Step(const std::string& session, std::vector<std::string> fetches,
                                       std::vector<std::string> targets = {}) {
  tensorflow::RunStepRequest request;
  request.set_session_handle(session);
  for (std::string& fetch : fetches) request.add_fetch(std::move(fetch));
  for (std::string& target : targets) request.add_target(std::move(target));
  return request;
}

inline void AddFeed(const std::string& name, const Tensor& tensor, tensorflow::RunStepRequest* request) {
  tensorflow::NamedTensorProto* feed = request->add_feed();
  feed->set_name(name);
  EXPECT_TRUE(TensorToProto(tensor, feed->mutable_tensor()).ok());
}

// The only fetched tensor, of floats.
inline std::vector<float> Floats(const tensorflow::RunStepResponse& response) {
  if (response.tensor_size() != 1) return {};
  const absl::StatusOr<Tensor> tensor = TensorFromProto(response.tensor(0).tensor());
  if (!tensor.ok() || tensor->dtype() != DType::kFloat32) return {};
  return {tensor->flat<float>().begin(), tensor->flat<float>().end()};
}

// x (fed), twice = 2 x, a variable `v` that `set` makes 1, and `add` adds 1 to; `take` waits until `put` puts
// 7 into a queue.
inline tensorflow::GraphDef TestModel(const OpRegistry& ops) {
  GraphBuilder g(ops);
  const auto constant = [&](const char* name, float value) {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar<float>(value)}, {"dtype", DType::kFloat32}}, name);
  };
  const Output x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}}, "x");
  g.AddOp("AddV2", {x, x}, {}, "twice");
  const Output one = constant("one", 1);
  const Output v =
      g.AddOp("VarHandleOp", {},
              {{"dtype", DType::kFloat32}, {"shape", PartialShape(Shape())}, {"shared_name", "v"}}, "v");
  g.AddNode("AssignVariableOp", {v, one}, {}, "set");
  g.AddNode("AssignAddVariableOp", {v, one}, {}, "add");
  g.AddOp("ReadVariableOp", {v}, {{"dtype", DType::kFloat32}}, "read");
  const std::vector<DType> floats = {DType::kFloat32};
  const Output queue = g.AddOp("FIFOQueueV2", {}, {{"component_types", floats}}, "queue");
  g.AddOp("QueueDequeueV2", {queue}, {{"component_types", floats}}, "take");
  g.AddNode("QueueEnqueueV2", {queue, constant("seven", 7)}, {}, "put");
  g.AddOp("QueueSizeV2", {queue}, {}, "size");
  EXPECT_TRUE(g.status().ok()) << g.status();
  return GraphDefOf(g.graph());
}

// The most that the process has had in memory, in bytes.
inline int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %ld kB", &kilobytes) == 1) {
      return kilobytes << 10;
    }
  }
  return 0;
}

}  // namespace weir
