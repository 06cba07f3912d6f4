#include "tests/simulation/counting_job.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distributed/replica_device_setter.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "kernels/variable.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

const TaskName kPs{"ps", 0}, kChief{"chief", 0};
// A life may be silent for a lease as often as something befalls it.
constexpr int kMostSilences = 3;
// A launcher: what it starts again, after how long and how often.
constexpr int kFirstRetryable = 128;
constexpr absl::Duration kRestartPause = absl::Seconds(1);
constexpr int kMostRestarts = 10;

std::string CounterName(const TaskName& task) { return absl::StrCat("counter_", task.job, "_", task.index); }

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

}  // namespace

// Notes when the chief has written a checkpoint.
class CountingJob::SaveListener final : public CheckpointSaverListener {
 public:
  SaveListener(Trainer& trainer, World::Life& life) : trainer_(trainer), life_(life) {}
  absl::StatusOr<bool> AfterSave(Session&, int64_t) override {
    if (!life_.world().is_over()) trainer_.saves.push_back(life_.world().time());
    return false;
  }

 private:
  Trainer& trainer_;
  World::Life& life_;
};

CountingJob::CountingJob(World& world, CountingJobOptions options)
    : world_(world), options_(std::move(options)) {
  tasks_ = {kPs, kChief};
  for (int i = 0; i < options_.num_workers; ++i) tasks_.push_back({"worker", i});
  for (size_t i = 0; i < tasks_.size(); ++i) {
    cluster_.AddTask(tasks_[i], absl::StrCat("127.0.0.1:", 5000 + i)).IgnoreError();
  }
  for (int i = 0; i < options_.num_guests; ++i) tasks_.push_back({"worker", options_.num_workers + i});
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

TaskConfig CountingJob::ConfigOf(const TaskName& task) const {
  ClusterSpec cluster = cluster_;
  if (!cluster.address(task).ok()) {
    cluster.AddTask(task, absl::StrCat("127.0.0.1:", 6000 + task.index)).IgnoreError();
  }
  return TaskConfig::Create(cluster, task).value();
}

World::Life& CountingJob::Start(const TaskName& task) {
  std::vector<World::Life*>& lives = lives_[task];
  const std::string name =
      absl::StrCat(task.ToString(), lives.empty() ? "" : absl::StrCat(" life ", lives.size() + 1));
  if (!lives.empty()) {
    world_.network().TakeAddresses(lives.back()->process());
    // The system gives a lock back when its holder is killed, a file server when it is silent for long.
    std::remove(absl::StrCat(options_.checkpoint_dir, "/.lock").c_str());
  }
  Trainer* trainer = nullptr;
  if (task != kPs) {
    trainer = &trainers_.emplace_back();
    trainer->task = task;
    trainer->number = static_cast<int>(lives.size());
    trainer->began = world_.time();
  }
  World::Life& life = world_.Start(name, [this, trainer](World::Life& life) {
    return trainer == nullptr ? ServePs(life) : Train(*trainer, life);
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
      return trainer.life == &last && last.has_ended() && ExitCodeFor(trainer.outcome) < kFirstRetryable;
    });
    if (is_wanted && lives_.at(task).back() == &last) Start(task);
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

void CountingJob::ServePs(World::Life& life) {
  const TaskConfig task = ConfigOf(kPs);
  ServerOptions options = life.server_options();
  if (options_.num_guests > 0) options.max_workers = static_cast<int>(tasks_.size());
  options.lease = options_.lease;
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(task, options);
  if (!server.ok()) return;
  ps_servers_[&life] = server->get();
  lost_.clear();
  (*server)->membership().AddLossListener(
      [this](const TaskName& task, Incarnation lost, const absl::Status&) {
        if (!world_.is_over()) ++lost_[task][lost];
      });
  life.AwaitEndOfWorld();  // so that the test can look at it
  ps_servers_.erase(&life);
}

void CountingJob::Train(Trainer& trainer, World::Life& life) {
  life.environment().set_longest_delay_of_work(options_.longest_delay_of_work);
  const TaskConfig task = ConfigOf(trainer.task);
  ServerOptions options = life.server_options();
  options.lease = options_.lease;
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(task, options);
  absl::Status outcome = server.status();
  if (outcome.ok()) {
    outcome = TrainOn(trainer, life, task, **server);
    if (!world_.is_over()) trainer.trained = world_.time();
    (*server)->Shutdown(outcome);
  }
  if (world_.is_over()) return;
  trainer.outcome = outcome;
  RestartIfItHelps(trainer, life);
}

void CountingJob::RestartIfItHelps(const Trainer& trainer, const World::Life& life) {
  const bool wants_it = ExitCodeFor(trainer.outcome) >= kFirstRetryable;
  if (!wants_it || trainer.is_told_to_leave || life.is_killed() || num_restarts_ == kMostRestarts) return;
  ++num_restarts_;
  StartLater(trainer.task, life, kRestartPause);
}

absl::Status CountingJob::TrainOn(Trainer& trainer, World::Life& life, const TaskConfig& task,
                                  Server& server) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const ModelVariable step = GlobalStep(g);
  Node* train = nullptr;
  for (const TaskName& other : tasks_) {
    if (other == kPs) continue;
    const ModelVariable counter = MakeVariable(g, CounterName(other), Tensor::Scalar(0.0f));
    if (other != trainer.task) continue;
    // One, but nobody knows before it is computed.
    const Output one = Sign(g, AddV2(g, Abs(g, counter.value), Const(g, 1.0f)));
    const auto beside = g.ColocationScope(counter.handle.node);
    Node* const count = g.AddNode("AssignAddVariableOp", {counter.handle, one});
    const Output one_step =
        g.AddOp("Const", {}, {{"value", Tensor::Scalar(int64_t{1})}, {"dtype", DType::kInt64}});
    const auto after = g.ControlScope({count});
    train = g.AddNode("AssignAddVariableOp", {step.handle, one_step});
  }
  WEIR_RETURN_IF_ERROR(g.status());
  TrainingSessionOptions options;
  options.target = server.target();
  options.is_chief = task.is_chief();
  options.checkpoint_dir = options_.checkpoint_dir;
  options.checkpoint_listeners = {std::make_shared<SaveListener>(trainer, life)};
  options.hooks = {StopAtStepHook({.last_step = options_.last_step})};
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
    status = Step(trainer, [&] { return session->Run({}, {}, {train}).status(); });
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
  return num_coming_ == 0 && std::all_of(trainers_.begin(), trainers_.end(), [](const Trainer& trainer) {
           return trainer.life->is_killed() || trainer.life->has_ended();
         });
}

void CountingJob::RunToTheEnd(absl::Duration limit) {
  world_.RunUntil([this] { return HaveTrainersEnded(); }, limit);
  // What they told the ps last is on its way, and lives that were killed have leases. The ps may still be
  // paused, or cut off.
  const absl::Duration end = std::max(world_.time(), heals_) + 3 * options_.lease;
  world_.RunUntil([] { return false; }, end);
}

int64_t CountingJob::num_acknowledged() const {
  int64_t sum = 0;
  for (const Trainer& trainer : trainers_) sum += trainer.num_acknowledged;
  return sum;
}

int64_t CountingJob::num_acknowledged(const TaskName& task) const {
  int64_t sum = 0;
  for (const Trainer& trainer : trainers_) sum += trainer.task == task ? trainer.num_acknowledged : 0;
  return sum;
}

int64_t CountingJob::CounterOf(const TaskName& task) const {
  Server* const server = ps_servers_.at(lives_.at(kPs).back());
  auto variable = server->runtime().devices()[0]->resources().Lookup<Variable>("", CounterName(task));
  if (!variable.ok()) return 0;
  absl::MutexLock lock(&(*variable)->mutex);
  return (*variable)->tensor.is_valid() ? static_cast<int64_t>((*variable)->tensor.scalar<float>()) : 0;
}

void CountingJob::CheckCounter(const TaskName& task, std::vector<std::string>* violations) const {
  int64_t num_acknowledged = 0, num_maybe = 0;
  for (const Trainer& trainer : trainers_) {
    if (trainer.task != task) continue;
    num_acknowledged += trainer.num_acknowledged;
    num_maybe += trainer.num_failed + (trainer.is_in_step ? 1 : 0);
  }
  const int64_t counter = CounterOf(task);
  if (counter > num_acknowledged + num_maybe) {
    violations->push_back(absl::StrCat("applied twice: ", task.ToString(), " has ", num_acknowledged,
                                       " steps, ", num_maybe, " more may have been applied, and ", counter,
                                       " were"));
  }
  const bool may_be_restored = lives_.at(kChief).size() > 1 || lives_.at(kPs).size() > 1;
  if (counter < num_acknowledged && !may_be_restored) {
    violations->push_back(absl::StrCat("lost: ", task.ToString(), " has ", num_acknowledged, " steps, and ",
                                       counter, " were applied"));
  }
}

void CountingJob::CheckCheckpoints(std::vector<std::string>* violations) const {
  for (const Trainer& older : trainers_) {
    for (const Trainer& newer : trainers_) {
      if (older.task != newer.task || older.number >= newer.number || newer.saves.empty()) continue;
      const absl::Duration begin = newer.saves.front();
      const auto late =
          std::find_if(older.saves.begin(), older.saves.end(), [&](absl::Duration t) { return t > begin; });
      if (late == older.saves.end()) continue;
      violations->push_back(absl::StrCat("two chiefs: ", older.life->name(), " saved at ", Seconds(*late),
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
    for (const auto& [life, times] : lost) {
      if (times <= kMostSilences) continue;
      violations->push_back(
          absl::StrCat("fencing: the ps has lost a life of ", task.ToString(), " ", times, " times"));
    }
  }
}

absl::Duration CountingJob::TimeSince(absl::Duration begin) const {
  return std::max(absl::ZeroDuration(), world_.time() - std::max(begin, healed_));
}

bool CountingJob::IsRightEnd(const Trainer& trainer) const {
  if (trainer.is_told_to_leave) return true;
  if (trainer.life == lives_.at(trainer.task).back()) return false;
  // AlreadyExists: its successor has its port.
  if (IsSuperseded(trainer.outcome) || absl::IsAlreadyExists(trainer.outcome)) return true;
  return ExitCodeFor(trainer.outcome) >= kFirstRetryable && lives_.at(kPs).size() > 1;
}

const CountingJob::Trainer* CountingJob::DoneChief() const {
  for (const Trainer& trainer : trainers_) {
    if (trainer.task == kChief && trainer.life->has_ended() && trainer.outcome.ok()) return &trainer;
  }
  return nullptr;
}

bool CountingJob::IsStranded(const Trainer& trainer) const {
  const Trainer* const chief = DoneChief();
  if (chief == nullptr) return false;
  const bool is_told = trainer.began < chief->trained && trainer.life == lives_.at(trainer.task).back();
  return trainer.task != kChief && !is_told && lives_.at(kPs).size() > 1;
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
  const absl::Duration limit = 3 * options_.lease;
  for (const Trainer& trainer : trainers_) {
    if (trainer.life->is_killed() || (!trainer.life->has_ended() && IsStranded(trainer))) continue;
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

void CountingJob::CheckPs(std::vector<std::string>* violations) const {
  const LocalWorker& worker = ps_servers_.at(lives_.at(kPs).back())->local_worker();
  if (worker.num_plans() > 0) {
    violations->push_back(absl::StrCat("leaked: ", worker.num_plans(), " plans on the ps"));
  }
  if (worker.num_running_steps() > 0) {
    violations->push_back(absl::StrCat("leaked: ", worker.num_running_steps(), " steps on the ps"));
  }
  if (worker.num_sessions() > 0) {
    violations->push_back(absl::StrCat("leaked: ", worker.num_sessions(), " sessions on the ps"));
  }
}

std::vector<std::string> CountingJob::Violations() const {
  std::vector<std::string> violations;
  if (!ps_servers_.contains(lives_.at(kPs).back())) return {"failed: the ps does not serve"};
  for (const TaskName& task : tasks_) {
    if (task != kPs) CheckCounter(task, &violations);
  }
  CheckCheckpoints(&violations);
  CheckLives(&violations);
  CheckProgress(&violations);
  CheckSaved(&violations);
  if (HaveTrainersEnded()) CheckPs(&violations);
  return violations;
}

}  // namespace weir
