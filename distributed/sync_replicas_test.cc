// Synchronous replicas on a cluster in this process: two ps and workers, each of which trains on a thread of
// its own, as programs do.
#include "ops/training/sync_replicas.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/transport/fault/fault_transport.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "ops/embedding.h"
#include "ops/standard_ops.h"
#include "ops/training/adam.h"
#include "ops/training/downpour.h"
#include "ops/training/elastic_averaging.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/loss_scale_optimizer.h"
#include "ops/variable.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// What a worker feeds in the step that begins at this global step.
Tensor Numbers(int64_t count, int64_t step, int worker) {
  std::mt19937 random(static_cast<uint32_t>(step * 100 + worker));
  std::uniform_real_distribution<float> numbers(-1, 1);
  Tensor tensor(DType::kFloat32, {count});
  for (float& value : tensor.flat<float>()) value = numbers(random);
  return tensor;
}

// One worker's graph: variables on both ps, a loss whose gradients depend on them and on what is fed.
struct Model {
  Model(Server& server, const SyncReplicasOptions& options, bool uses_adam = false)
      : g(StandardOps(), ReplicaDeviceSetter(server.task())) {
    x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({4})}});
    step = GlobalStep(g);
    for (const char* name : {"a", "b", "c"}) {
      variables.push_back(MakeVariable(g, name, Tensor::Vector<float>({1, -1, 0.5f, 2})));
    }
    std::vector<Output> losses;
    for (const ModelVariable& variable : variables) {
      losses.push_back(Sum(g, Mul(g, Square(g, variable.value), x), Const(g, 0)));
    }
    std::unique_ptr<Optimizer> optimizer = std::make_unique<GradientDescent>(0.1);
    if (uses_adam) optimizer = std::make_unique<Adam>(0.01);
    train = SyncReplicas(std::move(optimizer), options)->Minimize(g, AddN(g, losses), step).value_or(nullptr);
    for (const ModelVariable& variable : AllVariables(g)) values.push_back(variable.value);
  }
  GraphBuilder g;
  Output x;
  ModelVariable step;
  std::vector<ModelVariable> variables;
  std::vector<Output> values;  // of all variables
  Node* train = nullptr;
};

struct Plan {
  SyncReplicasOptions options;
  int64_t last_step = 20;
  bool uses_adam = false;
  std::map<int, int> steps_of;  // of workers that end earlier: after so many of their own steps
  bool is_killed = false;       // they do not end, but go without a word
  std::function<void(int worker, MonitoredSession& session)> before_step;
  std::function<void(int worker)> before_close;
  std::string directory = "";  // of checkpoints, one in each step
  bool is_asynchronous = false;
};

// Looks twice at all variables, some time apart.
class StillnessListener final : public CheckpointSaverListener {
 public:
  explicit StillnessListener(std::vector<Output> values) : values_(std::move(values)) {}
  absl::Status BeforeSave(Session& session, int64_t) override {
    WEIR_ASSIGN_OR_RETURN(const auto first, session.Run({}, {values_.begin(), values_.end()}));
    absl::SleepFor(absl::Milliseconds(50));
    WEIR_ASSIGN_OR_RETURN(const auto second, session.Run({}, {values_.begin(), values_.end()}));
    ++num_saves;
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].ToString() != second[i].ToString()) ++num_changes;
    }
    return absl::OkStatus();
  }

  int num_saves = 0, num_changes = 0;

 private:
  const std::vector<Output> values_;
};

class SyncReplicasTest : public testing::Test {
 protected:
  // A ps that is gone would be waited for by the others' farewells.
  ~SyncReplicasTest() override { EndCluster(); }
  void EndCluster() {
    while (!servers_.empty()) servers_.pop_back();
  }
  void StartCluster(int num_workers) {
    EndCluster();
    const auto network = MakeInprocNetwork();
    network_ = MakeInprocTransport(network);
    first_ps_ = std::make_unique<FaultTransport>(MakeInprocTransport(network));
    cluster_ = ClusterSpec();
    for (int i = 0; i < 2 + num_workers; ++i) {
      tasks_.resize(i + 1);
      tasks_[i] = i < 2 ? TaskName{"ps", i} : TaskName{"worker", i - 2};
      EXPECT_TRUE(cluster_.AddTask(tasks_[i], absl::StrCat("127.0.0.1:", 3000 + i)).ok());
    }
    for (const TaskName& task : tasks_) servers_.push_back(StartServer(task));
  }
  std::unique_ptr<Server> StartServer(const TaskName& task) {
    ServerOptions options;
    options.num_threads = 1;
    options.transport = task == tasks_[0] ? first_ps_.get() : network_.get();
    return Server::Start(TaskConfig::Create(cluster_, task).value(), options).value();
  }
  Server& worker(int index) { return *servers_[2 + index]; }

  struct Outcome {
    absl::Status status;
    int64_t num_steps = 0;      // that returned OK
    std::vector<float> values;  // of all variables, as they were at the end
    int64_t global_step = 0;
  };
  Outcome Train(int index, const Plan& plan, bool reads_values) {
    Outcome outcome;
    outcome.status = TrainAndNote(index, plan, reads_values, &outcome);
    return outcome;
  }
  absl::Status TrainAndNote(int index, const Plan& plan, bool reads_values, Outcome* outcome) {
    Model model(worker(index), plan.options, plan.uses_adam);
    WEIR_RETURN_IF_ERROR(model.g.status());
    TrainingSessionOptions options;
    options.target = worker(index).target();
    options.is_chief = index == 0;
    options.hooks = {SyncReplicasHook(index == 0), StopAtStepHook({.last_step = plan.last_step})};
    options.stops_on_sigterm = false;
    if (!plan.directory.empty() && index == 0) {
      options.checkpoint_dir = plan.directory;
      options.save_checkpoint_steps = 1;
      options.save_checkpoints_asynchronously = plan.is_asynchronous;
      listener_ = std::make_shared<StillnessListener>(model.values);
      options.checkpoint_listeners = {listener_};
    }
    WEIR_ASSIGN_OR_RETURN(const auto session, MonitoredTrainingSession(model.g, std::move(options)));
    const auto ends_early = plan.steps_of.find(index);
    const int64_t limit = ends_early == plan.steps_of.end() ? plan.last_step * 100 : ends_early->second;
    while (!session->should_stop() && outcome->num_steps < limit) {
      if (plan.before_step) plan.before_step(index, *session);
      WEIR_ASSIGN_OR_RETURN(const int64_t step, session->GlobalStep());
      const absl::Status status =
          session->Run({{model.x, Numbers(4, step, index)}}, {}, {model.train}).status();
      WEIR_RETURN_IF_ERROR(status);
      ++outcome->num_steps;
    }
    if (plan.is_killed) return absl::OkStatus();
    if (reads_values) {
      WEIR_ASSIGN_OR_RETURN(const auto values,
                            session->session().Run({}, {model.values.begin(), model.values.end()}));
      for (const Tensor& value : values) {
        if (value.dtype() == DType::kInt64) outcome->global_step = value.scalar<int64_t>();
        if (value.dtype() != DType::kFloat32) continue;
        outcome->values.insert(outcome->values.end(), value.flat<float>().begin(), value.flat<float>().end());
      }
    }
    if (plan.before_close) plan.before_close(index);
    return session->Close();
  }

  // Trains with all of them; the outcome of worker 0 first.
  std::vector<Outcome> TrainAll(int num_workers, const Plan& plan, std::vector<int> order = {}) {
    StartCluster(num_workers);
    if (order.empty()) {
      for (int i = 0; i < num_workers; ++i) order.push_back(i);
    }
    std::map<int, std::future<Outcome>> running;
    for (const int i : order) {
      running[i] = std::async(std::launch::async, [&, i] { return Train(i, plan, i == 0); });
    }
    std::vector<Outcome> outcomes;
    for (auto& [index, outcome] : running) {
      outcomes.push_back(outcome.get());
      EXPECT_TRUE(outcomes.back().status.ok()) << "worker " << index << ": " << outcomes.back().status;
    }
    return outcomes;
  }

  // What a program that sees all batches at once computes: gradient descent with the mean gradient.
  static std::vector<float> Expected(int64_t num_steps, int num_workers) {
    std::vector<float> all;
    for (int variable = 0; variable < 3; ++variable) {
      std::vector<double> w = {1, -1, 0.5, 2};
      for (int64_t step = 0; step < num_steps; ++step) {
        std::vector<double> mean(4, 0);
        for (int i = 0; i < num_workers; ++i) {
          const Tensor x = Numbers(4, step, i);
          for (int k = 0; k < 4; ++k) mean[k] += 2 * w[k] * x.flat<float>()[k] / num_workers;
        }
        for (int k = 0; k < 4; ++k) w[k] -= 0.1 * mean[k];
      }
      all.insert(all.end(), w.begin(), w.end());
    }
    return all;
  }

  std::shared_ptr<StillnessListener> listener_;  // the chief's, where it saves
  std::unique_ptr<Transport> network_;
  std::unique_ptr<FaultTransport> first_ps_;  // that of ps 0
  ClusterSpec cluster_;
  std::vector<TaskName> tasks_;
  std::vector<std::unique_ptr<Server>> servers_;
};

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-4) << i;
}

TEST_F(SyncReplicasTest, TrainingIsThatOfOneProgramWithAllBatches) {
  for (const ReduceOrder order : {ReduceOrder::kByRank, ReduceOrder::kArrival}) {
    const auto outcomes = TrainAll(3, {.options = {.replicas_to_aggregate = 3, .order = order}});
    ExpectNear(outcomes[0].values, Expected(20, 3));
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.num_steps, 20);
  }
}

TEST_F(SyncReplicasTest, TwoRunsGiveTheSameBits) {
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    const auto outcomes = TrainAll(3, {.options = {.replicas_to_aggregate = 3}, .uses_adam = true});
    if (run == 0) first = outcomes[0].values;
    ASSERT_EQ(outcomes[0].values.size(), first.size());
    EXPECT_EQ(std::memcmp(outcomes[0].values.data(), first.data(), first.size() * sizeof(float)), 0);
  }
}

TEST_F(SyncReplicasTest, TheOthersGoOnWithoutAWorkerThatHasEnded) {
  const auto outcomes =
      TrainAll(3, {.options = {.replicas_to_aggregate = 3, .on_loss = OnLoss::kWait}, .steps_of = {{2, 5}}});
  EXPECT_EQ(outcomes[0].global_step, 20);
  EXPECT_EQ(outcomes[1].num_steps, 20);
  EXPECT_EQ(outcomes[2].num_steps, 5);
}

TEST_F(SyncReplicasTest, TheEndOfTheChiefIsTheEndOfTheOthers) {
  const auto outcomes = TrainAll(3, {.options = {.replicas_to_aggregate = 3}, .steps_of = {{0, 5}}});
  EXPECT_EQ(outcomes[0].global_step, 5);
  EXPECT_GE(outcomes[1].num_steps, 5);
}

TEST_F(SyncReplicasTest, AWorkerThatHasEndedStaysUntilTheChiefHas) {
  StartCluster(2);
  std::atomic<bool> worker_is_gone{false};
  const Plan plan = {
      .options = {.replicas_to_aggregate = 2},
      .steps_of = {{1, 5}},
      .before_step = [&](int worker, MonitoredSession&) { EXPECT_FALSE(worker == 0 && worker_is_gone); }};
  auto other = std::async(std::launch::async, [&] {
    const Outcome outcome = Train(1, plan, false);
    worker_is_gone = true;
    return outcome;
  });
  const Outcome chief = Train(0, plan, true);
  EXPECT_TRUE(chief.status.ok()) << chief.status;
  EXPECT_EQ(chief.global_step, 20);
  const Outcome ended = other.get();
  EXPECT_TRUE(ended.status.ok()) << ended.status;
  EXPECT_EQ(ended.num_steps, 5);
}

// Nothing was saved: the next chief begins at step 0.
TEST_F(SyncReplicasTest, AWorkerThatHasEndedIsCalledBackByAChiefThatHasLostSteps) {
  StartCluster(2);
  const SyncReplicasOptions options = {.replicas_to_aggregate = 2, .on_loss = OnLoss::kWait};
  auto other = std::async(std::launch::async, [&] {
    return Train(1, {.options = options, .steps_of = {{1, 5}}}, false);
  });
  const Outcome killed = Train(0, {.options = options, .steps_of = {{0, 8}}, .is_killed = true}, false);
  EXPECT_EQ(killed.num_steps, 8);
  auto chief = std::async(std::launch::async, [&] { return Train(0, {.options = options}, true); });
  const Outcome called_back = other.get();
  EXPECT_EQ(called_back.status.code(), absl::StatusCode::kAborted) << called_back.status;
  EXPECT_THAT(std::string(called_back.status.message()), HasSubstr("begins again at step 0"));
  const Outcome again = Train(1, {.options = options}, false);
  EXPECT_TRUE(again.status.ok()) << again.status;
  const Outcome trained = chief.get();
  EXPECT_TRUE(trained.status.ok()) << trained.status;
  ExpectNear(trained.values, Expected(20, 2));
}

// The first ps has the means and all that it needs of the second, and updates its variables. What it tells
// the second never arrives, so that one does not, and the step is lost.
TEST_F(SyncReplicasTest, AnUpdateThatIsLostHalfwayIsAppliedOnceEverywhere) {
  StartCluster(2);
  int num_steps = 0;
  const Plan plan = {
      .options = {.replicas_to_aggregate = 2, .on_loss = OnLoss::kWait},
      .before_step = [&](int worker, MonitoredSession&) {
        if (worker != 0 || ++num_steps % 5 != 0) return;
        first_ps_->Clear();
        first_ps_->Add({.action = Fault::Action::kClose, .method = "PushTensors", .job = "ps", .count = 8});
      }};
  auto other = std::async(std::launch::async, [&] { return Train(1, plan, false); });
  const Outcome chief = Train(0, plan, true);
  EXPECT_TRUE(chief.status.ok()) << chief.status;
  const Outcome worker = other.get();
  EXPECT_TRUE(worker.status.ok()) << worker.status;
  EXPECT_GT(first_ps_->num_hits(), 0);
  EXPECT_EQ(chief.global_step, 20);
  ExpectNear(chief.values, Expected(20, 2));
}

// The chief's last word reaches the first ps, and not the second.
TEST_F(SyncReplicasTest, TheEndOnOnePsIsTheEnd) {
  StartCluster(2);
  const Plan plan = {.options = {.replicas_to_aggregate = 2}, .last_step = 1000000};
  auto other = std::async(std::launch::async, [&] { return Train(1, plan, false); });
  Model model(worker(0), plan.options);
  ASSERT_TRUE(model.g.ok()) << model.g.status();
  TrainingSessionOptions options;
  options.target = worker(0).target();
  options.is_chief = true;
  options.hooks = {SyncReplicasHook(true)};
  options.stops_on_sigterm = false;
  const auto session = MonitoredTrainingSession(model.g, std::move(options)).value();
  EXPECT_TRUE(session->Run({{model.x, Numbers(4, 0, 0)}}, {}, {model.train}).ok());
  const absl::Status closed =
      session->session()
          .Run({{"sync_replicas/is_fed_by_SyncReplicasHook:0", Tensor::Scalar(int64_t{1})}}, {},
               {"sync_replicas_1/close"})
          .status();
  EXPECT_TRUE(closed.ok()) << closed;
  EXPECT_EQ(other.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const Outcome outcome = other.get();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_GE(outcome.num_steps, 1);
  EXPECT_TRUE(session->Close().ok());
}

TEST_F(SyncReplicasTest, AChiefThatNeverBeginsIsNotWaitedForForEver) {
  StartCluster(2);
  Model chief(worker(0), {.replicas_to_aggregate = 2}), model(worker(1), {.replicas_to_aggregate = 2});
  const auto initialized = MonitoredTrainingSession(chief.g, {.target = worker(0).target()});
  ASSERT_TRUE(initialized.ok()) << initialized.status();
  const auto session =
      MonitoredTrainingSession(model.g, {.target = worker(1).target(),
                                         .is_chief = false,
                                         .hooks = {SyncReplicasHook(false, absl::Seconds(1))}});
  EXPECT_TRUE(absl::IsFailedPrecondition(session.status())) << session.status();
  EXPECT_THAT(std::string(session.status().message()),
              HasSubstr("the chief of the replicas has not begun training within 1s"));
}

TEST_F(SyncReplicasTest, BackupWorkersAreNotWaitedFor) {
  // Worker 2 begins its third step only when the others have come to the end.
  absl::Notification is_over, has_joined;
  Plan plan = {.options = {.replicas_to_aggregate = 2, .total_num_replicas = 3}};
  std::atomic<int> num_steps_of_2{0};
  plan.before_step = [&](int worker, MonitoredSession& session) {
    if (worker == 2 && num_steps_of_2 == 0) has_joined.Notify();
    EXPECT_TRUE(has_joined.WaitForNotificationWithTimeout(absl::Seconds(60)));
    if (worker == 2 && ++num_steps_of_2 == 3) {
      EXPECT_TRUE(is_over.WaitForNotificationWithTimeout(absl::Seconds(60)));
    }
    if (worker == 1 && session.GlobalStep().value_or(0) >= 15 && !is_over.HasBeenNotified()) is_over.Notify();
  };
  const auto outcomes = TrainAll(3, plan);
  EXPECT_EQ(outcomes[0].global_step, 20);
  EXPECT_GT(outcomes[2].num_steps, 1);
}

// The chief is not waited for: without a pause the driver goes on while it saves.
TEST_F(SyncReplicasTest, NoUpdateBeginsWhileTheChiefSaves) {
  for (const bool is_asynchronous : {false, true}) {
    StartCluster(2);
    Plan plan = {.options = {.replicas_to_aggregate = 1, .total_num_replicas = 2}, .last_step = 100000};
    plan.directory = absl::StrCat(testing::TempDir(), "/still", is_asynchronous);
    plan.is_asynchronous = is_asynchronous;
    plan.steps_of = {{0, 5}};
    auto other = std::async(std::launch::async, [&] { return Train(1, plan, false); });
    const Outcome chief = Train(0, plan, false);
    EXPECT_TRUE(chief.status.ok()) << chief.status;
    EXPECT_TRUE(other.get().status.ok());
    EXPECT_GT(listener_->num_saves, 3);
    EXPECT_EQ(listener_->num_changes, 0);
  }
}

// Two of three gradients would have made each step, and the third been dropped, without a word.
TEST_F(SyncReplicasTest, AWorkerTooManyIsRefused) {
  StartCluster(3);
  std::atomic<int> num_steps{0};
  std::atomic<bool> is_refused{false};
  Plan plan = {.options = {.replicas_to_aggregate = 2}, .last_step = 1000000};
  plan.before_step = [&](int worker, MonitoredSession& session) {
    if (worker == 0) ++num_steps;
    if (worker == 0 && is_refused) session.RequestStop();
  };
  auto chief = std::async(std::launch::async, [&] { return Train(0, plan, false); });
  auto other = std::async(std::launch::async, [&] { return Train(1, plan, false); });
  while (num_steps < 3) absl::SleepFor(absl::Milliseconds(1));  // now both are there
  const Outcome third = Train(2, plan, false);
  is_refused = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(third.status)) << third.status;
  EXPECT_THAT(std::string(third.status.message()),
              HasSubstr("worker 2 is one too many: 2 other replicas are there"));
  EXPECT_EQ(third.num_steps, 0);
  chief.wait();
  EXPECT_TRUE(other.get().status.ok());
}

// It ends with an error of its own, and the others would wait for it without knowing why.
TEST_F(SyncReplicasTest, TheOthersSayWhyAWorkerWasRefused) {
  StartCluster(2);
  std::atomic<MonitoredSession*> chief_session{nullptr};
  Plan plan = {.options = {.replicas_to_aggregate = 2}, .last_step = 1000000};
  plan.before_step = [&](int, MonitoredSession& session) { chief_session = &session; };
  auto chief = std::async(std::launch::async, [&] { return Train(0, plan, false); });
  while (chief_session == nullptr) absl::SleepFor(absl::Milliseconds(1));
  const Outcome other =
      Train(1, {.options = {.replicas_to_aggregate = 2, .order = ReduceOrder::kArrival}}, false);
  EXPECT_TRUE(absl::IsInvalidArgument(other.status)) << other.status;
  EXPECT_EQ(ExitCodeFor(other.status), kExitUserError);
  const std::string why = "all workers must build the same model";
  EXPECT_THAT(std::string(other.status.message()), HasSubstr(why));
  std::string said;
  Session& session = chief_session.load()->session();
  for (int i = 0; i < 1500 && !absl::StrContains(said, why); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    for (const auto& node : session.graph().nodes()) {
      if (node->op().name() != "WeirReplicaAwaited") continue;
      const auto awaited = session.Run({}, {node->output(1)});
      if (!awaited.ok()) continue;
      said = (*awaited)[0].scalar<std::string>();
      if (absl::StrContains(said, why)) break;
    }
  }
  EXPECT_THAT(said, HasSubstr("waits for the gradients of worker 1, which was refused: '"));
  EXPECT_THAT(said, HasSubstr(why));
  chief_session.load()->RequestStop();
  // With the same flags it may come: then the chief's step ends.
  plan.last_step = 1;
  EXPECT_TRUE(Train(1, plan, false).status.ok());
  EXPECT_TRUE(chief.get().status.ok());
}

TEST_F(SyncReplicasTest, AWorkerThatComesAfterTheEndStopsAtOnce) {
  StartCluster(3);
  const Plan plan = {.options = {.replicas_to_aggregate = 2, .total_num_replicas = 3}};
  auto other = std::async(std::launch::async, [&] { return Train(1, plan, false); });
  EXPECT_EQ(Train(0, plan, true).global_step, 20);
  EXPECT_TRUE(other.get().status.ok());
  const Outcome late = Train(2, plan, false);
  EXPECT_TRUE(late.status.ok()) << late.status;
  EXPECT_EQ(late.num_steps, 0);
}

TEST_F(SyncReplicasTest, TheChiefMayComeLast) {
  const auto outcomes = TrainAll(3, {.options = {.replicas_to_aggregate = 3}}, {2, 1, 0});
  ExpectNear(outcomes[0].values, Expected(20, 3));
}

TEST_F(SyncReplicasTest, OneProgramAloneTrainsToo) {
  GraphBuilder g(StandardOps());
  const auto server = Server::Start(TaskConfig()).value();
  Model model(*server, {});
  const auto session =
      MonitoredTrainingSession(model.g, {.target = server->target(),
                                         .hooks = {SyncReplicasHook(true), StopAtStepHook({.last_step = 5})}})
          .value();
  for (int64_t step = 0; !session->should_stop(); ++step) {
    const absl::Status status = session->Run({{model.x, Numbers(4, step, 0)}}, {}, {model.train}).status();
    ASSERT_TRUE(status.ok()) << status;
  }
  const Tensor a = session->session().Run({}, {model.variables[0].value}).value()[0];
  const std::vector<float> expected = Expected(5, 1);
  for (int k = 0; k < 4; ++k) EXPECT_NEAR(a.flat<float>()[k], expected[k], 1e-5);
  EXPECT_TRUE(session->Close().ok());
}

// Rows are divided by how many replicas had them.
TEST_F(SyncReplicasTest, RowsOfTablesAreAveraged) {
  StartCluster(2);
  const auto train = [&](int index) -> absl::StatusOr<Tensor> {
    GraphBuilder g(StandardOps(), ReplicaDeviceSetter(worker(index).task()));
    const ModelVariable step = GlobalStep(g);
    const ModelVariable table = MakeVariable(g, "table", Tensor::FromSpan<float>({4, 1}, {0, 0, 0, 0}));
    const Output rows = g.AddOp("Placeholder", {}, {{"dtype", DType::kInt32}, {"shape", PartialShape({3})}});
    const Output weights = Const(g, Tensor::FromSpan<float>({3, 1}, {1, 2, 4}));
    const Output loss =
        Sum(g, Mul(g, EmbeddingLookup(g, table, rows), weights), Const(g, Tensor::Vector<int32_t>({0, 1})));
    auto optimizer = SyncReplicas(std::make_unique<GradientDescent>(1.0), {.replicas_to_aggregate = 2});
    WEIR_ASSIGN_OR_RETURN(Node* const node, optimizer->Minimize(g, loss, step));
    TrainingSessionOptions options;
    options.target = worker(index).target();
    options.is_chief = index == 0;
    options.hooks = {SyncReplicasHook(index == 0)};
    options.stops_on_sigterm = false;
    WEIR_ASSIGN_OR_RETURN(const auto session, MonitoredTrainingSession(g, std::move(options)));
    const Tensor mine = index == 0 ? Tensor::Vector<int32_t>({3, 0, 3}) : Tensor::Vector<int32_t>({1, 3, 1});
    WEIR_RETURN_IF_ERROR(session->Run({{rows, mine}}, {}, {node}).status());
    WEIR_ASSIGN_OR_RETURN(const auto values, session->session().Run({}, {table.value}));
    WEIR_RETURN_IF_ERROR(session->Close());
    return values[0];
  };
  auto other = std::async(std::launch::async, [&] { return train(1); });
  const auto mine = train(0);
  ASSERT_TRUE(mine.ok()) << mine.status();
  ASSERT_TRUE(other.get().ok());
  EXPECT_THAT(mine->flat<float>(), testing::ElementsAre(-2, -5, 0, -3.5));
}

TEST_F(SyncReplicasTest, MistakesAreNamed) {
  const auto error = [](std::unique_ptr<Optimizer> optimizer, const SyncReplicasOptions& options,
                        bool has_step = true) {
    GraphBuilder g(StandardOps());
    const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(1.0f));
    const ModelVariable step = has_step ? GlobalStep(g) : ModelVariable();
    return std::string(SyncReplicas(std::move(optimizer), options)
                           ->Minimize(g, Square(g, w.value), step)
                           .status()
                           .message());
  };
  const auto sgd = [] { return std::make_unique<GradientDescent>(0.1); };
  EXPECT_THAT(error(nullptr, {}), HasSubstr("SyncReplicas: the optimizer is null"));
  EXPECT_THAT(error(sgd(), {.replicas_to_aggregate = 0}), HasSubstr("must be at least 1, is 0"));
  EXPECT_THAT(error(sgd(), {.replicas_to_aggregate = 3, .total_num_replicas = 2}),
              HasSubstr("total_num_replicas is 2, less than the replicas_to_aggregate 3"));
  EXPECT_THAT(error(sgd(), {}, false), HasSubstr("SyncReplicas: needs a global step"));
  EXPECT_THAT(error(Downpour(sgd(), {}), {}),
              HasSubstr("SyncReplicas: the wrapped optimizer trains local copies"));
  EXPECT_THAT(error(std::make_unique<ElasticAveraging>(ElasticAveragingOptions()), {}),
              HasSubstr("trains local copies"));
  EXPECT_THAT(error(std::make_unique<LossScaleOptimizer>(Downpour(sgd(), {}), DynamicLossScale()), {}),
              HasSubstr("trains local copies"));
  EXPECT_EQ(error(std::make_unique<LossScaleOptimizer>(GradientDescent(0.1), DynamicLossScale()), {}), "");
  const auto within = [&](const std::function<std::unique_ptr<Optimizer>(std::unique_ptr<Optimizer>)>& wrap) {
    GraphBuilder g(StandardOps());
    const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(1.0f));
    const ModelVariable step = GlobalStep(g);
    const absl::Status status = wrap(SyncReplicas(sgd(), {}))->Minimize(g, Square(g, w.value), step).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(within([](auto sync) { return Downpour(std::move(sync), {}); }),
              HasSubstr("SyncReplicas: must be the outermost optimizer"));
  EXPECT_THAT(within([](auto sync) {
                return std::make_unique<LossScaleOptimizer>(std::move(sync), DynamicLossScale());
              }),
              HasSubstr("SyncReplicas: must be the outermost optimizer"));
  EXPECT_EQ(within([](auto sync) {
              return std::make_unique<LossScaleOptimizer>(std::move(sync), FixedLossScale{2});
            }),
            "");

  GraphBuilder g(StandardOps());
  const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(1.0f));
  const auto server = Server::Start(TaskConfig()).value();
  const auto session =
      MonitoredTrainingSession(g, {.target = server->target(), .hooks = {SyncReplicasHook(true)}});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("SyncReplicasHook: the graph has no"));
}

TEST_F(SyncReplicasTest, AStepWithoutTheHookSaysSo) {
  const auto server = Server::Start(TaskConfig()).value();
  Model model(*server, {});
  const auto session = MonitoredTrainingSession(model.g, {.target = server->target()}).value();
  const absl::Status status = session->Run({{model.x, Numbers(4, 0, 0)}}, {}, {model.train}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("is_fed_by_SyncReplicasHook"));
}

// What waits on the other ps did not hear of the end, for a step on both fails at once: the session waited
// for it in silence, until it gave its threads up.
TEST_F(SyncReplicasTest, AChiefThatLosesAPsAtTheEndEndsSoon) {
  StartCluster(1);
  absl::Time closes;
  Plan plan;
  plan.last_step = 3;
  plan.before_close = [&](int) {
    servers_[1].reset();
    closes = absl::Now();
  };
  EXPECT_TRUE(Train(0, plan, false).status.ok());
  EXPECT_LT(absl::Now() - closes, absl::Seconds(60));  // threads are given up after two minutes
}

}  // namespace
}  // namespace weir
