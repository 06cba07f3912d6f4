#include "tests/simulation/counting_job.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distributed/replica_device_setter.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/forwarding_file_system.h"
#include "kernels/variable.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/monitored/training_session.h"
#include "tests/simulation/sync_model.h"

namespace weir {
namespace {

const TaskName kAuthority{"ps", 0}, kChief{"chief", 0};
// A life may be silent for a lease as often as something befalls it.
constexpr int kMostSilences = 3;
// A launcher: what it starts again, after how long and how often.
constexpr int kFirstRetryable = 128;
constexpr absl::Duration kRestartPause = absl::Seconds(1);
constexpr int kMostRestarts = 10;
constexpr int64_t kTableSize = 180'000;

bool IsPs(const TaskName& task) { return task.job == "ps"; }

std::string CounterName(const TaskName& task) { return absl::StrCat("counter_", task.job, "_", task.index); }

// It could not write: what is wrong with the disk passes.
bool IsOfDisk(const absl::Status& outcome) {
  return absl::StrContains(outcome.message(), SimulatedDisk::kInjected);
}

bool IsStartedAgain(const absl::Status& outcome) {
  return ExitCodeFor(outcome) >= kFirstRetryable || IsOfDisk(outcome);
}

Tensor Pair(float first, float second) { return Tensor::FromSpan<float>(Shape({2}), {first, second}); }

Output Constant(GraphBuilder& g, Tensor value) {
  const DType dtype = value.dtype();
  return g.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
}

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

}  // namespace

// Notes when the chief has written a checkpoint.
class CountingJob::SaveListener final : public CheckpointSaverListener {
 public:
  SaveListener(Trainer& trainer, World::Life& life) : trainer_(trainer), life_(life) {}
  // That may be called long after readers have found what was saved, and after a successor's first save.
  absl::StatusOr<bool> AfterSave(Session&, int64_t step) override {
    if (!life_.world().is_over()) trainer_.saves.push_back({trainer_.last_rename, step});
    return false;
  }

 private:
  Trainer& trainer_;
  World::Life& life_;
};

// The disk as one life of the chief has it: notes when that has changed what readers find.
class CountingJob::NotedDisk final : public ForwardingFileSystem {
 public:
  NotedDisk(FileSystem& disk, Trainer& trainer, World::Life& life)
      : ForwardingFileSystem(disk), trainer_(trainer), life_(life) {}

  absl::Status Rename(const std::string& from, const std::string& to) override {
    WEIR_RETURN_IF_ERROR(ForwardingFileSystem::Rename(from, to));
    // Claims and manifests have names of their lives.
    const bool is_of_all = !absl::StartsWith(to.substr(to.rfind('/') + 1), ".");
    if (is_of_all && !life_.world().is_over()) trainer_.last_rename = life_.world().time();
    return absl::OkStatus();
  }

 private:
  Trainer& trainer_;
  World::Life& life_;
};

CountingJob::CountingJob(World& world, CountingJobOptions options, const NetworkOptions& network)
    : world_(world),
      options_(std::move(options)),
      disk_(world.scheduler()),
      store_(world.scheduler(), network) {
  for (int i = 0; i < options_.num_ps; ++i) tasks_.push_back({"ps", i});
  tasks_.push_back(kChief);
  for (int i = 0; i < options_.num_workers; ++i) tasks_.push_back({"worker", i});
  for (size_t i = 0; i < tasks_.size(); ++i) {
    cluster_.AddTask(tasks_[i], absl::StrCat("127.0.0.1:", 5000 + i)).IgnoreError();
  }
  for (int i = 0; i < options_.num_guests; ++i) tasks_.push_back({"worker", options_.num_workers + i});
  if (options_.elects) CheckOffices();
  disk_.set_sync_time(options_.sync_time);
}

void CountingJob::StartAll() {
  for (const TaskName& task : tasks_) {
    if (cluster_.address(task).ok()) Start(task);
  }
}

void CountingJob::TellToLeave(const TaskName& task) {
  for (Trainer& trainer : trainers_) {
    if (trainer.life == &life(task)) trainer.is_told_to_leave = true;
  }
}

TaskConfig CountingJob::ConfigOf(const TaskName& task, int number) const {
  ClusterSpec cluster = cluster_;
  if (!cluster.address(task).ok()) {
    cluster.AddTask(task, absl::StrCat("127.0.0.1:", 6000 + task.index + 100 * number)).IgnoreError();
  }
  return TaskConfig::Create(cluster, task).value();
}

World::Life& CountingJob::Start(const TaskName& task) {
  std::vector<World::Life*>& lives = lives_[task];
  const std::string name =
      absl::StrCat(task.ToString(), lives.empty() ? "" : absl::StrCat(" life ", lives.size() + 1));
  // Whoever starts a task thinks that all before it are dead. One that was stopped before it listened may
  // have come to do so since, when its successor had ended.
  for (World::Life* const life : lives) world_.network().TakeAddresses(life->process());
  if (!lives.empty() && !options_.checkpoint_dir.empty()) {
    // The system gives a lock back when its holder is killed, a file server when it is silent for long.
    std::remove(absl::StrCat(options_.checkpoint_dir, "/.lock").c_str());
  }
  Trainer* trainer = nullptr;
  if (!IsPs(task)) {
    trainer = &trainers_.emplace_back();
    trainer->task = task;
    trainer->number = static_cast<int>(lives.size());
    trainer->began = world_.time();
  }
  World::Life& life = world_.Start(name, [this, task, trainer](World::Life& life) {
    return trainer == nullptr ? ServePs(task, life) : Train(*trainer, life);
  });
  if (trainer != nullptr) trainer->life = &life;
  lives.push_back(&life);
  return life;
}

void CountingJob::StartLater(const TaskName& task, const World::Life& last, absl::Duration pause) {
  ++num_coming_;
  world_.At(world_.time() + pause, [this, &last, task] {
    --num_coming_;
    const bool is_wanted = std::none_of(trainers_.begin(), trainers_.end(), [&](const Trainer& trainer) {
      return trainer.life == &last && last.has_ended() && !IsStartedAgain(trainer.outcome);
    });
    if (is_wanted && !ended_ps_.contains(&last) && lives_.at(task).back() == &last) Start(task);
  });
}

void CountingJob::Cut(const TaskName& from, const TaskName& to) {
  world_.network().Cut(life(from).process(), life(to).process());
}
void CountingJob::Flap(const TaskName& from, const TaskName& to) {
  world_.network().Flap(life(from).process(), life(to).process());
}
void CountingJob::Heal(const TaskName& from, const TaskName& to) {
  world_.network().Heal(life(from).process(), life(to).process());
}

void CountingJob::ServePs(const TaskName& ps, World::Life& life) {
  life.environment().set_longest_delay_of_work(options_.longest_delay_of_work);
  const TaskConfig task = ConfigOf(ps);
  ServerOptions options = life.server_options();
  if (options_.num_guests > 0) {
    options.max_workers = options_.num_places > 0 ? options_.num_places : static_cast<int>(tasks_.size());
  }
  options.lease = options_.lease;
  options.peer_limits = options_.peer_limits;
  const std::unique_ptr<AuthorityStore> store = store_.MakeClient(life.environment());
  if (options_.elects) options.election_store = store.get();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(task, options);
  if (!server.ok()) return;
  ps_servers_[&life] = server->get();
  if (ps == kAuthority && !options_.elects) {
    lost_.clear();
    (*server)->membership().AddLossListener(
        [this](const TaskName& task, Incarnation lost, const absl::Status&) {
          if (!world_.is_over()) ++lost_[task][lost];
        });
  }
  if (!options_.ps_end) {
    life.AwaitEndOfWorld();  // so that the test can look at it
  } else {
    if (AwaitEndOfJob(life, **server)) NoteEndOfPs(ps, life, **server);
    (*server)->Shutdown();
  }
  ps_servers_.erase(&life);
}

// As Server::Join, without the signals of this process.
bool CountingJob::AwaitEndOfJob(World::Life& life, Server& server) {
  Membership& members = server.membership();
  life.OnEndOfWorld([&members] { members.StopWaiting(); });
  bool is_over = false;
  while (!is_over && !world_.is_over() && members.is_serving()) {
    is_over = members.AwaitEndOfJob(life.environment().Now() + absl::Seconds(10));
  }
  life.OnEndOfWorld(nullptr);
  return is_over && !world_.is_over();
}

void CountingJob::NoteEndOfPs(const TaskName& ps, const World::Life& life, Server& server) {
  ended_ps_[&life] = world_.time();
  std::vector<std::string> names = {"global_step"};
  for (const TaskName& task : tasks_) names.push_back(CounterName(task));
  for (const std::string& name : names) {
    auto found = server.runtime().devices()[0]->resources().Lookup<Variable>("", name);
    if (!found.ok()) continue;
    absl::MutexLock lock(&(*found)->mutex);
    last_values_[name] = (*found)->tensor;
  }
  bool is_chief_done = false;
  for (const Trainer& trainer : trainers_) {
    const bool has_trained = trainer.trained > absl::ZeroDuration();
    is_chief_done |= trainer.task == kChief && has_trained && trainer.outcome.ok();
    if (has_trained || trainer.life->is_killed() || TimeSince(trainer.began) < 3 * options_.lease) continue;
    wrong_ends_.push_back(absl::StrCat("left early: ", life.name(), " ended at ", Seconds(world_.time()),
                                       ", ", trainer.life->name(), " was training"));
  }
  if (!is_chief_done) {
    wrong_ends_.push_back(absl::StrCat("left early: ", life.name(), " ended at ", Seconds(world_.time()),
                                       ", before the chief"));
  }
}

void CountingJob::Train(Trainer& trainer, World::Life& life) {
  life.environment().set_longest_delay_of_work(options_.longest_delay_of_work);
  const TaskConfig task = ConfigOf(trainer.task, trainer.number);
  ServerOptions options = life.server_options();
  options.lease = options_.lease;
  options.peer_limits = options_.peer_limits;
  const std::unique_ptr<AuthorityStore> store = store_.MakeClient(life.environment());
  if (options_.elects) options.election_store = store.get();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(task, options);
  absl::Status outcome = server.status();
  if (outcome.ok()) {
    outcome = TrainOn(trainer, life, task, **server);
    if (!world_.is_over()) trainer.trained = world_.time(), trainer.outcome = outcome;
    if (!world_.is_over() && options_.stay > absl::ZeroDuration()) {
      life.Sleep(options_.stay);
      CheckIdlePs();
    }
    (*server)->Shutdown(outcome);
  }
  if (world_.is_over()) return;
  trainer.outcome = outcome;
  RestartIfItHelps(trainer, life);
}

void CountingJob::RestartIfItHelps(const Trainer& trainer, const World::Life& life) {
  if (!IsStartedAgain(trainer.outcome) || trainer.is_told_to_leave || life.is_killed() ||
      num_restarts_ == kMostRestarts)
    return;
  if (!IsOfDisk(trainer.outcome)) ++num_restarts_;
  StartLater(trainer.task, life, kRestartPause);
}

absl::StatusOr<CountingJob::StepOfSession> CountingJob::BuildCounters(GraphBuilder& g, const TaskName& self) {
  const ModelVariable step = GlobalStep(g);
  Node* train = nullptr;
  for (const TaskName& other : tasks_) {
    if (IsPs(other)) continue;
    const ModelVariable counter = MakeVariable(g, CounterName(other), Pair(0, 0));
    if (other != self) continue;
    // {1, n} of {n, s}.
    const Tensor axis = Tensor::FromSpan<int32_t>(Shape({1}), {0});
    const Output swapped = g.AddOp("ReverseV2", {counter.value, Constant(g, axis)}, {});
    const Output more = AddV2(g, Mul(g, swapped, Constant(g, Pair(0, 1))), Constant(g, Pair(1, 0)));
    Node* count = nullptr;
    {
      const auto beside = g.ColocationScope(counter.handle.node);
      count = g.AddNode("AssignAddVariableOp", {counter.handle, more});
    }
    const auto beside = g.ColocationScope(step.handle.node);
    const Output one_step = Constant(g, Tensor::Scalar(int64_t{1}));
    const auto after = g.ControlScope({count});
    train = g.AddNode("AssignAddVariableOp", {step.handle, one_step});
  }
  StepOfSession count = [train](MonitoredSession& session) { return session.Run({}, {}, {train}).status(); };
  if (options_.num_tables > 0) count = WithTables(g, std::move(count));
  WEIR_RETURN_IF_ERROR(g.status());
  return count;
}

CountingJob::StepOfSession CountingJob::WithTables(GraphBuilder& g, StepOfSession step) const {
  std::vector<TensorRef> sums;
  for (int i = 0; i < options_.num_tables; ++i) {
    Tensor ones = Tensor::FromSpan<float>(Shape({kTableSize}), std::vector<float>(kTableSize, 1.0f));
    const ModelVariable table = MakeVariable(g, absl::StrCat("table_", i), std::move(ones));
    sums.push_back(ReduceSum(g, AddV2(g, table.value, table.value)));
  }
  return [sums, step = std::move(step)](MonitoredSession& session) -> absl::Status {
    WEIR_RETURN_IF_ERROR(step(session));
    if (session.should_stop()) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> read, session.Run({}, sums));
    for (const Tensor& sum : read) {
      if (sum.scalar<float>() != 2.0f * kTableSize) {
        return absl::DataLossError(absl::StrCat("a table's sum is ", sum.scalar<float>()));
      }
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<CountingJob::StepOfSession> CountingJob::BuildModel(GraphBuilder& g, const TaskConfig& task) {
  if (!options_.sync_replicas) return BuildCounters(g, task.task());
  WEIR_ASSIGN_OR_RETURN(const SyncModel model, SyncModel::Build(g, task, *options_.sync_replicas));
  return StepOfSession([model](MonitoredSession& session) { return model.RunStep(session); });
}

absl::Status CountingJob::TrainOn(Trainer& trainer, World::Life& life, const TaskConfig& task,
                                  Server& server) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  WEIR_ASSIGN_OR_RETURN(const StepOfSession step, BuildModel(g, task));
  NotedDisk disk(disk_, trainer, life);
  TrainingSessionOptions options;
  options.target = server.target();
  options.is_chief = task.is_chief();
  options.checkpoint_dir = options_.checkpoint_dir;
  options.scaffold = std::make_shared<Scaffold>();
  options.scaffold->saver_options.file_system = &disk;
  options.checkpoint_listeners = {std::make_shared<SaveListener>(trainer, life)};
  options.hooks = {StopAtStepHook({.last_step = options_.last_step})};
  if (options_.sync_replicas) options.hooks.insert(options.hooks.begin(), SyncReplicasHook(task.is_chief()));
  options.save_checkpoint_steps = options_.save_steps;
  options.save_summaries_steps = 0;
  options.log_step_count_steps = 0;
  options.stops_on_sigterm = false;
  absl::StatusOr<std::unique_ptr<MonitoredSession>> created = MonitoredTrainingSession(g, std::move(options));
  if (absl::IsOutOfRange(created.status())) return absl::OkStatus();  // training is over
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<MonitoredSession> session, std::move(created));
  life.OnEndOfWorld([&session] { session->RequestStop(); });
  absl::Status status;
  while (status.ok() && !session->should_stop() && !trainer.is_told_to_leave) {
    status = Step(trainer, [&] { return step(*session); });
    life.Sleep(options_.pause);
  }
  if (trainer.is_told_to_leave) status.Update(absl::CancelledError("told to leave"));
  if (status.ok() || absl::IsOutOfRange(status)) status = session->Close();
  life.OnEndOfWorld(nullptr);
  return status;
}

absl::Status CountingJob::Step(Trainer& trainer, absl::FunctionRef<absl::Status()> step) {
  trainer.step_began = world_.time();
  trainer.is_in_step = true;
  const absl::Status status = step();
  if (world_.is_over()) return status;
  trainer.is_in_step = false;
  trainer.longest_step = std::max(trainer.longest_step, TimeSince(trainer.step_began));
  ++(status.ok() ? trainer.num_acknowledged : trainer.num_failed);
  return status;
}

bool CountingJob::HaveTrainersEnded() const {
  return num_coming_ == 0 && std::all_of(trainers_.begin(), trainers_.end(), [this](const Trainer& trainer) {
           return trainer.life->is_killed() || trainer.life->has_ended() || IsOrphan(trainer);
         });
}

void CountingJob::RunToTheEnd(absl::Duration limit) {
  world_.RunUntil([this] { return HaveTrainersEnded(); }, limit);
  // What they told the ps last is on its way, and lives that were killed have leases. The ps may still be
  // paused, or cut off.
  const absl::Duration end = std::max(world_.time(), heals_) + 3 * options_.lease;
  world_.RunUntil([] { return false; }, end);
  if (!options_.ps_end || !HaveTrainersEnded()) return;
  constexpr absl::Duration kChiefGrace = absl::Minutes(11);
  world_.RunUntil([this] { return ps_servers_.empty(); }, end + kChiefGrace);
  for (const auto& [life, server] : ps_servers_) {
    if (!WasPsRestarted()) wrong_ends_.push_back(absl::StrCat("hang: ", life->name(), " has not ended"));
  }
}

bool CountingJob::IsOrphan(const Trainer& trainer) const {
  return std::any_of(ended_ps_.begin(), ended_ps_.end(), [&](const auto& ended) {
    return trainer.trained == absl::ZeroDuration() || trainer.trained > ended.second;
  });
}

int64_t CountingJob::num_acknowledged() const {
  int64_t sum = 0;
  for (const Trainer& trainer : trainers_) sum += trainer.num_acknowledged;
  return sum;
}

Tensor CountingJob::ValueOf(const std::string& variable) const {
  for (const TaskName& task : tasks_) {
    if (!IsPs(task)) break;
    if (!ps_servers_.contains(lives_.at(task).back())) continue;
    Server* const server = ps_servers_.at(lives_.at(task).back());
    auto found = server->runtime().devices()[0]->resources().Lookup<Variable>("", variable);
    if (!found.ok()) continue;
    absl::MutexLock lock(&(*found)->mutex);
    return (*found)->tensor;
  }
  const auto last = last_values_.find(variable);
  return last == last_values_.end() ? Tensor() : last->second;
}

bool CountingJob::WasPsRestarted() const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [this](const TaskName& task) { return IsPs(task) && lives_.at(task).size() > 1; });
}

bool CountingJob::MayBeRestored() const { return WasPsRestarted() || lives_.at(kChief).size() > 1; }

CountingJob::Steps CountingJob::StepsOf(const TaskName& task) const {
  Steps steps;
  for (const Trainer& trainer : trainers_) {
    if (trainer.task != task) continue;
    steps.num_acknowledged += trainer.num_acknowledged;
    steps.num_maybe += trainer.num_failed + (trainer.is_in_step ? 1 : 0);
  }
  return steps;
}

void CountingJob::CheckCount(absl::string_view what, int64_t count, const Steps& steps, bool may_be_restored,
                             std::vector<std::string>* violations) {
  if (count > steps.num_acknowledged + steps.num_maybe) {
    violations->push_back(absl::StrCat("applied twice: ", what, " has ", steps.num_acknowledged, " steps, ",
                                       steps.num_maybe, " more may have been applied, and ", count, " were"));
  }
  if (count < steps.num_acknowledged && !may_be_restored) {
    violations->push_back(absl::StrCat("lost: ", what, " has ", steps.num_acknowledged, " steps, and ", count,
                                       " were applied"));
  }
}

int64_t CountingJob::num_acknowledged(const TaskName& task) const { return StepsOf(task).num_acknowledged; }

void CountingJob::CheckCounter(const TaskName& task, std::vector<std::string>* violations) const {
  const Tensor value = ValueOf(CounterName(task));
  const auto n = static_cast<int64_t>(value.is_valid() ? value.flat<float>()[0] : 0);
  const auto sum = static_cast<int64_t>(value.is_valid() ? value.flat<float>()[1] : 0);
  CheckCount(task.ToString(), n, StepsOf(task), MayBeRestored(), violations);
  if (sum != n * (n - 1) / 2) {
    violations->push_back(absl::StrCat("stale: ", n, " steps of ", task.ToString(),
                                       " had read values whose sum is ", sum, ", and not ", n * (n - 1) / 2,
                                       ": one was applied to another value than it had read"));
  }
}

void CountingJob::CheckGlobalStep(std::vector<std::string>* violations) const {
  Steps all;
  for (const TaskName& task : tasks_) {
    if (IsPs(task)) continue;
    const Steps steps = StepsOf(task);
    all.num_acknowledged += steps.num_acknowledged;
    all.num_maybe += steps.num_maybe;
  }
  const Tensor value = ValueOf("global_step");
  CheckCount("the job", value.is_valid() ? value.scalar<int64_t>() : 0, all, MayBeRestored(), violations);
}

std::string CountingJob::SavedWeights() const {
  const absl::StatusOr<std::vector<std::string>> checkpoints = CheckpointsIn(options_.checkpoint_dir);
  if (!checkpoints.ok() || checkpoints->empty()) return "no checkpoint";
  const auto reader = BundleReader::Open(checkpoints->front());
  if (!reader.ok()) return reader.status().ToString();
  const auto step = (*reader)->Read("global_step"), a = (*reader)->Read("a"), b = (*reader)->Read("b");
  if (!step.ok() || !a.ok() || !b.ok()) return absl::StrCat(checkpoints->front(), " cannot be read");
  return DescribeWeights(step->scalar<int64_t>(), a->scalar<float>(), b->scalar<float>());
}

void CountingJob::CheckWeights(std::vector<std::string>* violations) const {
  if (DoneChief() == nullptr || options_.expected_weights.empty()) return;
  if (const std::string weights = SavedWeights(); weights != options_.expected_weights) {
    violations->push_back(
        absl::StrCat("other weights: ", weights, ", and without faults ", options_.expected_weights));
  }
}

void CountingJob::CheckDurable(std::vector<std::string>* violations) const {
  std::vector<Trainer::Save> saves;
  for (const Trainer& trainer : trainers_)
    saves.insert(saves.end(), trainer.saves.begin(), trainer.saves.end());
  std::stable_sort(saves.begin(), saves.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  for (size_t i = 1; i < saves.size(); ++i) {
    if (saves[i].step >= saves[i - 1].step) continue;
    violations->push_back(absl::StrCat("not durable: step ", saves[i - 1].step, " was saved at ",
                                       Seconds(saves[i - 1].at), ", and step ", saves[i].step, " at ",
                                       Seconds(saves[i].at)));
  }
}

void CountingJob::CheckCheckpoints(std::vector<std::string>* violations) const {
  for (const Trainer& older : trainers_) {
    for (const Trainer& newer : trainers_) {
      if (older.task != newer.task || older.number >= newer.number || newer.saves.empty()) continue;
      const absl::Duration begin = newer.saves.front().at;
      if (older.last_rename > begin) {
        violations->push_back(absl::StrCat("two chiefs: ", older.life->name(), " renamed a file at ",
                                           Seconds(older.last_rename), ", after ", newer.life->name(),
                                           " had saved at ", Seconds(begin)));
      }
      const auto late = std::find_if(older.saves.begin(), older.saves.end(),
                                     [&](const Trainer::Save& save) { return save.at > begin; });
      if (late == older.saves.end()) continue;
      violations->push_back(absl::StrCat("two chiefs: ", older.life->name(), " saved at ", Seconds(late->at),
                                         ", after ", newer.life->name(), " had at ", Seconds(begin)));
    }
  }
}

void CountingJob::CheckLives(std::vector<std::string>* violations) const {
  for (const auto& [task, lost] : lost_) {
    const size_t num_lives = lives_.at(task).size();
    if (lost.size() > num_lives) {
      violations->push_back(absl::StrCat("fencing: the ps has lost ", lost.size(), " lives of ",
                                         task.ToString(), ", which had ", num_lives));
    }
    // One that has a successor is lost once more, for that.
    const int most = kMostSilences + (num_lives > 1 ? 1 : 0);
    for (const auto& [life, times] : lost) {
      if (times <= most) continue;
      violations->push_back(
          absl::StrCat("fencing: the ps has lost a life of ", task.ToString(), " ", times, " times"));
    }
  }
}

void CountingJob::CheckOffices() {
  constexpr absl::Duration kOften = absl::Milliseconds(20);
  int num_in_office = 0;
  for (const auto& [life, server] : ps_servers_) {
    const Membership& members = server->membership();
    if (members.view().authority > members.office()) {
      wrong_offices_.push_back(absl::StrCat("elections: ", life->name(), " has a view of the office ",
                                            LifeString(members.view().authority),
                                            ", and knows of none after ", LifeString(members.office())));
    }
    if (!members.HoldsOffice()) continue;
    ++num_in_office;
    const Incarnation office = members.office();
    if (office == office_ && server == in_office_) continue;
    if (office <= office_) {
      wrong_offices_.push_back(absl::StrCat("elections: ", life->name(), " is in office ", LifeString(office),
                                            " after ", LifeString(office_)));
    }
    office_ = office;
    in_office_ = server;
    ++num_offices_;
  }
  if (num_in_office > 1) {
    wrong_offices_.push_back(
        absl::StrCat("elections: ", num_in_office, " are in office at ", Seconds(world_.time())));
  }
  if (wrong_offices_.size() > 3) wrong_offices_.resize(3);
  world_.At(world_.time() + kOften, [this] { CheckOffices(); });
}

absl::Duration CountingJob::TimeSince(absl::Duration begin) const {
  return std::max(absl::ZeroDuration(), world_.time() - std::max(begin, healed_));
}

bool CountingJob::IsRightEnd(const Trainer& trainer) const {
  if (trainer.is_told_to_leave) return true;
  if (trainer.life == lives_.at(trainer.task).back()) return false;
  // AlreadyExists: its successor has its port.
  if (IsSuperseded(trainer.outcome) || absl::IsAlreadyExists(trainer.outcome)) return true;
  // A replica that has done its last step, and then loses its chief or a ps, asks to be started again.
  const bool may_ask = WasPsRestarted() || (options_.sync_replicas && lives_.at(kChief).size() > 1);
  if (ExitCodeFor(trainer.outcome) >= kFirstRetryable) return may_ask;
  // Once it is under way a checkpoint that is not written costs no training.
  return IsOfDisk(trainer.outcome) && trainer.saves.empty();
}

const CountingJob::Trainer* CountingJob::DoneChief() const {
  for (const Trainer& trainer : trainers_) {
    if (trainer.task == kChief && trainer.life->has_ended() && trainer.outcome.ok()) return &trainer;
  }
  return nullptr;
}

void CountingJob::CheckSaved(std::vector<std::string>* violations) const {
  if (options_.checkpoint_dir.empty() || DoneChief() == nullptr) return;
  const absl::StatusOr<std::vector<std::string>> checkpoints = CheckpointsIn(options_.checkpoint_dir);
  const std::string newest = checkpoints.ok() && !checkpoints->empty() ? checkpoints->front() : "none";
  int64_t step = -1;
  if (!absl::SimpleAtoi(newest.substr(newest.rfind('-') + 1), &step) || step < options_.last_step) {
    violations->push_back(absl::StrCat("unsaved: the chief has ended, the newest checkpoint is ", newest));
  }
}

void CountingJob::CheckProgress(std::vector<std::string>* violations) const {
  const absl::Duration limit = 3 * options_.lease + options_.patience;
  for (const Trainer& trainer : trainers_) {
    if (trainer.life->is_killed() || IsOrphan(trainer)) continue;
    absl::Duration longest = trainer.longest_step;
    if (trainer.is_in_step) {
      longest = std::max(longest, TimeSince(trainer.step_began));
    }
    if (longest > limit) {
      violations->push_back(
          absl::StrCat("no progress: a step of ", trainer.life->name(), " took ", Seconds(longest)));
    }
    if (!trainer.life->has_ended()) {
      violations->push_back(absl::StrCat("hang: ", trainer.life->name(), " has not ended"));
    } else if (!trainer.outcome.ok() && !IsRightEnd(trainer)) {
      violations->push_back(absl::StrCat("failed: ", trainer.life->name(), ": ", trainer.outcome.ToString()));
    }
  }
}

void CountingJob::CheckIdlePs() {
  const auto is_idle = [this](const Trainer& trainer) {
    return trainer.life->is_killed() || trainer.trained > absl::ZeroDuration();
  };
  if (world_.is_over() || !std::all_of(trainers_.begin(), trainers_.end(), is_idle)) return;
  left_behind_.clear();
  for (const TaskName& task : tasks_) {
    if (IsPs(task) && ps_servers_.contains(lives_.at(task).back())) CheckPs(task, &left_behind_);
  }
}

void CountingJob::CheckPs(const TaskName& ps, std::vector<std::string>* violations) const {
  const LocalWorker& worker = ps_servers_.at(lives_.at(ps).back())->local_worker();
  const auto check = [&](int64_t count, absl::string_view what) {
    if (count > 0) violations->push_back(absl::StrCat("leaked: ", count, " ", what, " on ", ps.ToString()));
  };
  check(worker.num_plans(), "plans");
  check(worker.num_running_steps(), "steps");
  check(worker.num_sessions(), "sessions");
}

std::vector<std::string> CountingJob::Violations() const {
  std::vector<std::string> violations;
  for (const TaskName& task : tasks_) {
    const World::Life* const newest = lives_.at(task).back();
    if (IsPs(task) && !ps_servers_.contains(newest) && !ended_ps_.contains(newest)) {
      return {absl::StrCat("failed: ", task.ToString(), " does not serve")};
    }
  }
  if (options_.sync_replicas) {
    CheckWeights(&violations);
  } else {
    for (const TaskName& task : tasks_) {
      if (!IsPs(task)) CheckCounter(task, &violations);
    }
    CheckGlobalStep(&violations);
  }
  CheckCheckpoints(&violations);
  CheckDurable(&violations);
  CheckLives(&violations);
  violations.insert(violations.end(), wrong_offices_.begin(), wrong_offices_.end());
  violations.insert(violations.end(), left_behind_.begin(), left_behind_.end());
  violations.insert(violations.end(), wrong_ends_.begin(), wrong_ends_.end());
  CheckProgress(&violations);
  CheckSaved(&violations);
  if (!HaveTrainersEnded()) return violations;
  for (const TaskName& task : tasks_) {
    if (IsPs(task) && ps_servers_.contains(lives_.at(task).back())) CheckPs(task, &violations);
  }
  return violations;
}

}  // namespace weir
