// Replicas without parameter servers in simulated clusters, as a user of Horovod would write them: whatever
// order a seed chooses, and whoever is killed, paused or cut off on the way, all ranks come to the end,
// their variables are the same bits after each step, and the last ones are those of a run in which nothing
// happened.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/cluster_spec.h"
#include "distributed/collectives/collective_group.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/horovod.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "distributed/task_name.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"
#include "tests/simulation/simulated_store.h"
#include "tests/simulation/world.h"

namespace weir {
namespace {

constexpr int64_t kLastStep = 12;
constexpr char kTooLate[] = "too late";
constexpr absl::Duration kLease = absl::Seconds(3);

// What a call of RunStepFn does. Each way the variables get the same values.
enum class Turn { kOneStep, kTrainsThenMeasures, kTwoSteps };
constexpr int kNumTurns = 3;

struct ReplicaJobOptions {
  bool elects = false;  // a store says which rank is the authority; otherwise it is rank 0
  Turn turn = Turn::kOneStep;
  // Each rank runs out of data at another step, and joins. Rank `first_out` is the first one.
  std::optional<int> first_out = std::nullopt;
  bool ends_with_error = false;   // the step in which it does says OutOfRange
  bool measures_in_hook = false;  // a hook has a collective of its own in each step
  absl::Duration lease = kLease;
  std::string checkpoint_dir = "";  // of rank 0; empty: none

  // What a run without misfortunes depends on.
  std::string ToString() const { return absl::StrCat("first out ", first_out.value_or(-1)); }
};

// What a hook of a user's does: a mean over all ranks beside each step.
class MetricHook final : public Hook {
 public:
  explicit MetricHook(Output metric) : metric_(metric) {}
  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override { return RunArgs{.fetches = {metric_}}; }

 private:
  const Output metric_;
};

class ReplicaJob {
 public:
  ReplicaJob(uint64_t seed, int size, const ReplicaJobOptions& options = {})
      : world_(seed), store_(world_.scheduler(), {}), options_(options), has_failed_(size), outcomes_(size) {
    for (int rank = 0; rank < size; ++rank) {
      tasks_.push_back({"worker", rank});
      cluster_.AddTask(tasks_[rank], absl::StrCat("127.0.0.1:", 5000 + rank)).IgnoreError();
    }
    for (int rank = 0; rank < size; ++rank) Start(rank);
  }
  ~ReplicaJob() { world_.End(); }

  // Kills the rank at that time and starts it again two seconds later.
  void KillAndRestart(int rank, absl::Duration at) {
    world_.At(at, [this, rank] {
      if (!outcomes_[rank].empty() || lives_.at(rank)->is_killed()) return;
      world_.Kill(*lives_.at(rank));
      Restart(rank, absl::Seconds(2));
    });
  }
  // The whole job goes on from the newest checkpoint, or begins anew.
  void KillAndRestartAll(absl::Duration at) {
    for (size_t rank = 0; rank < tasks_.size(); ++rank) KillAndRestart(static_cast<int>(rank), at);
  }
  void Pause(int rank, absl::Duration at, absl::Duration length) {
    world_.At(at, [this, rank, length] {
      World::Life* const life = lives_.at(rank);
      world_.Pause(*life);
      world_.At(world_.time() + length, [this, life] { world_.Resume(*life); });
    });
  }
  // The group ends, without the loss of anybody.
  void EndGroup(int rank, absl::Duration at) {
    world_.At(at, [this, rank] {
      const auto server = servers_.find(rank);
      if (server == servers_.end() || lives_.at(rank)->is_killed()) return;
      server->second->replicas()->ranks()->End(absl::AbortedError("a link is broken"));
    });
  }
  // Nothing gets from one to the other.
  void Cut(int from, int to, absl::Duration at, absl::Duration length) {
    world_.At(at, [this, from, to, length] {
      Scheduler::Process& one = lives_.at(from)->process();
      Scheduler::Process& other = lives_.at(to)->process();
      world_.network().Cut(one, other);
      world_.At(world_.time() + length, [this, &one, &other] { world_.network().Heal(one, other); });
    });
  }

  // Whatever is sent from one to the other is lost, and its connection with it, when `from` has done its last
  // step.
  void FlapAtTheEndOf(int from, int to, absl::Duration length) {
    at_the_end_[from] = [this, from, to, length] {
      Scheduler::Process& one = lives_.at(from)->process();
      Scheduler::Process& other = lives_.at(to)->process();
      world_.network().Flap(one, other);
      world_.At(world_.time() + length, [this, &one, &other] { world_.network().Heal(one, other); });
    };
  }

  // Calls that when another rank has done the last step and this one has not.
  void InTheLastStep(int rank, std::function<void()> then) {
    in_last_step_ = [this, rank, then = std::move(then)] {
      if (last_done_[rank] < kLastStep) world_.At(world_.time(), then);
    };
  }
  absl::Duration time() const { return world_.time(); }
  const std::string& last_error() const { return last_error_; }

  // Whether the rank's process has come to an end, good or bad.
  bool HasEnded(int rank) const { return has_failed_[rank] || !outcomes_[rank].empty(); }

  // The variables' bits at the end, of all ranks; or what went wrong.
  std::string Run() {
    const auto have_ended = [this] {
      for (const std::string& outcome : outcomes_) {
        if (outcome.empty()) return false;
      }
      return true;
    };
    world_.RunUntil(have_ended, absl::Minutes(10));
    if (!divergence_.empty()) return divergence_;
    std::string bits;
    std::vector<std::string> wrong;
    for (size_t rank = 0; rank < outcomes_.size(); ++rank) {
      const std::string& outcome = outcomes_[rank];
      if (outcome.empty()) wrong.push_back(absl::StrCat("rank ", rank, " did not end"));
      if (bits.empty() && outcome != kTooLate) bits = outcome;
      if (outcome != kTooLate && outcome != bits) {
        wrong.push_back(absl::StrCat("rank ", rank, ": ", outcome, "; an earlier one: ", bits));
      }
    }
    if (options_.first_out && !bits_.empty()) absl::StrAppend(&bits, ": ", bits_.rbegin()->second);
    return wrong.empty() ? bits : absl::StrJoin(wrong, "\n");
  }

 private:
  void Restart(int rank, absl::Duration after) {
    world_.At(world_.time() + after, [this, rank] {
      world_.network().TakeAddresses(lives_.at(rank)->process());
      // The system gives back the lock of a process that was killed.
      if (rank == 0) std::remove(absl::StrCat(options_.checkpoint_dir, "/.lock").c_str());
      Start(rank);
    });
  }

  void Start(int rank) {
    ++num_lives_;
    lives_[rank] = &world_.Start(absl::StrCat("worker:", rank, " life ", num_lives_),
                                 [this, rank](World::Life& life) { Serve(rank, life); });
  }

  void Serve(int rank, World::Life& life) {
    ServerOptions options = life.server_options();
    options.lease = options_.lease;
    const std::unique_ptr<AuthorityStore> store = store_.MakeClient(life.environment());
    if (options_.elects) options.election_store = store.get();
    auto server = Server::Start(TaskConfig::Create(cluster_, tasks_[rank]).value(), options);
    absl::StatusOr<std::string> bits = absl::UnknownError("no server");
    if (server.ok()) {
      servers_[rank] = server->get();
      bits = Train(rank, life, **server);
      if (lives_.at(rank) == &life) servers_.erase(rank);
      (*server)->Shutdown(bits.status());
    } else {
      bits = server.status();
    }
    if (world_.is_over() || life.is_killed() || lives_.at(rank) != &life) return;
    has_failed_[rank] = has_failed_[rank] || !bits.ok();
    if (!bits.ok()) last_error_ = bits.status().ToString();
    if (bits.ok()) {
      outcomes_[rank] = *bits;
    } else if (HasAnyEnded() || absl::IsOutOfRange(bits.status())) {
      // It was lost in the last step, which the others have done. They tell it so, or are not there any more.
      outcomes_[rank] = kTooLate;
    } else if (++num_restarts_ > 20) {
      outcomes_[rank] = bits.status().ToString();
    } else {
      Restart(rank, absl::Seconds(1));  // as `weir launch --restarts` does
    }
  }

  bool HasAnyEnded() const {
    return std::any_of(outcomes_.begin(), outcomes_.end(),
                       [](const std::string& one) { return !one.empty(); });
  }

  absl::StatusOr<std::string> Train(int rank, World::Life& life, Server& server) {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Horovod> hvd,
                          Horovod::Init(server, {.timeout = absl::Minutes(1)}));
    GraphBuilder g(StandardOps());
    const Output x =
        g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape(Shape())}});
    const ModelVariable step = GlobalStep(g);
    const ModelVariable a = MakeVariable(g, "a", Tensor::Scalar(1.0f));
    const ModelVariable b = MakeVariable(g, "b", Tensor::Scalar(2.0f));
    const Output loss = Mul(g, x, AddV2(g, Square(g, a.value), Mul(g, a.value, Square(g, b.value))));
    const Output metric = hvd->AllReduce(g, loss);  // fails beside the updates, too
    auto optimizer = hvd->DistributedOptimizer(Momentum(0.01, 0.5), {.first_bucket_bytes = 1});
    WEIR_ASSIGN_OR_RETURN(Node* const train, optimizer->Minimize(g, loss, step));
    TrainingSessionOptions options;
    options.target = server.target();
    options.hooks = {hvd->BroadcastGlobalVariablesHook()};
    if (!options_.first_out) options.hooks.push_back(StopAtStepHook({.last_step = kLastStep}));
    if (options_.measures_in_hook) {
      options.hooks.push_back(std::make_shared<MetricHook>(hvd->AllReduce(g, Square(g, loss))));
    }
    const Output join = options_.first_out ? hvd->Join(g) : Output();
    if (rank == 0) options.checkpoint_dir = options_.checkpoint_dir;
    options.save_checkpoint_steps = 2;
    options.stops_on_sigterm = false;
    options.log_step_count_steps = 0;
    WEIR_ASSIGN_OR_RETURN(const auto session, MonitoredTrainingSession(g, std::move(options)));
    life.OnEndOfWorld([&session] { session->RequestStop(); });
    absl::Status status;
    std::string bits;
    const auto note = [&]() -> absl::Status {
      WEIR_ASSIGN_OR_RETURN(const auto values, session->session().Run({}, {step.value, a.value, b.value}));
      bits = absl::StrCat("step ", values[0].scalar<int64_t>(), ", ",
                          absl::Hex(std::bit_cast<uint32_t>(values[1].scalar<float>())), " ",
                          absl::Hex(std::bit_cast<uint32_t>(values[2].scalar<float>())));
      Note(rank, life, values[0].scalar<int64_t>(), bits);
      return absl::OkStatus();
    };
    using Context = MonitoredSession::StepContext;
    const auto run = [&](Context& context, const std::vector<TensorRef>& fetches,
                         const std::vector<TargetRef>& targets) -> absl::Status {
      WEIR_ASSIGN_OR_RETURN(const auto now, context.session().Run({}, {step.value}));
      const auto batch = static_cast<float>((now[0].scalar<int64_t>() * 31 + rank * 17) % 23) / 7 - 1;
      return context.RunWithHooks({{x, Tensor::Scalar(batch)}}, fetches, targets).status();
    };
    std::optional<int> last_to_join;
    bool is_out = false;
    while (status.ok() && !session->should_stop() && !last_to_join) {
      life.Sleep(absl::Milliseconds(100));
      status = session->RunStepFn([&](Context& context) -> absl::Status {
        WEIR_ASSIGN_OR_RETURN(const auto now, context.session().Run({}, {step.value}));
        if (now[0].scalar<int64_t>() >= LastStepOf(rank)) {
          is_out = options_.ends_with_error;
          if (is_out) return absl::OutOfRangeError("no more batches");
          WEIR_ASSIGN_OR_RETURN(const auto joined, context.RunWithHooks({}, {join}, {}));
          last_to_join = joined[0].scalar<int32_t>();
          return absl::OkStatus();
        }
        if (options_.turn == Turn::kOneStep) return run(context, {metric}, {train});
        const bool measures = options_.turn == Turn::kTrainsThenMeasures;
        WEIR_RETURN_IF_ERROR(run(context, {}, {train}));
        return run(context, {metric}, measures ? std::vector<TargetRef>{} : std::vector<TargetRef>{train});
      });
      if (is_out && absl::IsOutOfRange(status)) {
        const auto joined = session->Run({}, {join});
        status = joined.status();
        if (joined.ok()) last_to_join = (*joined)[0].scalar<int32_t>();
      }
      if (!status.ok()) break;
      WEIR_RETURN_IF_ERROR(note());
    }
    // It may have come back when the others had done the last step: then it has their variables.
    if (status.ok() && bits.empty()) status = note();
    if (status.ok()) status = session->Close();
    life.OnEndOfWorld(nullptr);
    WEIR_RETURN_IF_ERROR(status);
    return last_to_join ? absl::StrCat("rank ", *last_to_join, " was the last to join") : bits;
  }

  // Where it runs out of data; where nobody does, a hook ends the training.
  int64_t LastStepOf(int rank) const {
    if (!options_.first_out) return std::numeric_limits<int64_t>::max();
    const int size = static_cast<int>(tasks_.size());
    return kLastStep - 3 * ((*options_.first_out - rank + 2 * size - 1) % size);
  }

  // All ranks have the same after a step.
  void Note(int rank, const World::Life& life, int64_t step, const std::string& bits) {
    if (life.is_killed() || world_.is_over()) return;
    last_done_[rank] = step;
    if (step == kLastStep && in_last_step_) std::exchange(in_last_step_, nullptr)();
    if (step == kLastStep && at_the_end_.contains(rank)) at_the_end_.extract(rank).mapped()();
    const auto [it, is_new] = bits_.try_emplace(step, bits);
    if (it->second == bits || !divergence_.empty()) return;
    divergence_ = absl::StrCat("rank ", rank, " has ", bits, ", another had ", it->second);
  }

  World world_;
  SimulatedStore store_;
  const ReplicaJobOptions options_;
  ClusterSpec cluster_;
  std::vector<TaskName> tasks_;
  std::map<int, World::Life*> lives_;  // the newest, by rank
  std::map<int, Server*> servers_;     // of those
  int num_lives_ = 0;
  int num_restarts_ = 0;
  std::string last_error_;
  std::function<void()> in_last_step_;
  std::map<int, std::function<void()>> at_the_end_;  // by rank
  std::map<int, int64_t> last_done_;                 // by rank: the last step
  std::map<int64_t, std::string> bits_;              // by step
  std::string divergence_;
  std::vector<bool> has_failed_;       // by rank, in any life
  std::vector<std::string> outcomes_;  // by rank
};

// WEIR_REPLICA_FIRST and the WEIR_REPLICA_SEEDS - 1 after it: a campaign sets them.
std::vector<uint64_t> Seeds() {
  const auto number = [](const char* name, uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  };
  std::vector<uint64_t> seeds(number("WEIR_REPLICA_SEEDS", 60));
  std::iota(seeds.begin(), seeds.end(), number("WEIR_REPLICA_FIRST", 1));
  return seeds;
}

class CollectivesSimulationTest : public testing::TestWithParam<int> {
 protected:
  // Any two misfortunes, of any ranks, at any time.
  std::string Befall(ReplicaJob& job, uint64_t seed, uint64_t num_kinds = 5) {
    std::mt19937_64 random(seed);
    std::string told;
    for (int i = 0; i < 2; ++i) {
      const int rank = static_cast<int>(random() % GetParam());
      const int other = (rank + 1 + static_cast<int>(random() % (GetParam() - 1))) % GetParam();
      const absl::Duration at = absl::Milliseconds(random() % 3000);
      const absl::Duration length = absl::Milliseconds(100 + random() % 10000);
      const uint64_t kind = random() % num_kinds;
      absl::StrAppend(&told, "; kind ", kind, " of rank ", rank, " at ", absl::FormatDuration(at), " for ",
                      absl::FormatDuration(length));
      if (kind == 0) {
        job.KillAndRestart(rank, at);
      } else if (kind == 1) {
        job.Pause(rank, at, length);
      } else if (kind == 4) {
        job.EndGroup(rank, at);
      } else if (kind == 5) {
        job.KillAndRestartAll(at);
      } else {
        job.Cut(rank, other, at, length);
        if (kind == 2) job.Cut(other, rank, at, length);
      }
    }
    return told;
  }

  // The end of a run in which nothing happens.
  std::string Expected(const ReplicaJobOptions& options = {}) const {
    static std::map<std::string, std::string>* const known = new std::map<std::string, std::string>;
    std::string& bits = (*known)[absl::StrCat(GetParam(), " ranks, ", options.ToString())];
    if (bits.empty()) bits = ReplicaJob(1, GetParam(), {.first_out = options.first_out}).Run();
    return bits;
  }

  // An empty folder.
  static std::string NewFolder(uint64_t seed) {
    const std::string folder = absl::StrCat(testing::TempDir(), "/replicas-", seed);
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder;
  }
};

TEST_P(CollectivesSimulationTest, AllOrdersGiveTheSameBits) {
  EXPECT_THAT(Expected(), testing::HasSubstr(absl::StrCat("step ", kLastStep, ", ")));
  for (uint64_t seed = 2; seed <= 12; ++seed) {
    EXPECT_EQ(ReplicaJob(seed, GetParam()).Run(), Expected()) << "seed " << seed;
  }
}

TEST_P(CollectivesSimulationTest, AKilledRankComesBackAndNothingIsLost) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    ReplicaJob job(seed, GetParam());
    // A group of two whose first rank is killed keeps what the second one has.
    job.KillAndRestart(static_cast<int>(seed) % GetParam(), absl::Milliseconds(150 + 31 * seed));
    EXPECT_EQ(job.Run(), Expected()) << "seed " << seed;
  }
}

// The others have its part of that step, and end. Rank 0 stays for a while to say so.
TEST_P(CollectivesSimulationTest, ARankThatIsLostInItsLastStepIsToldThatTrainingIsOver) {
  for (const bool is_killed : {true, false}) {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      ReplicaJob job(seed, GetParam());
      const int rank = 1 + static_cast<int>(seed) % (GetParam() - 1);
      job.InTheLastStep(rank, [&job, rank, is_killed] {
        if (is_killed) return job.KillAndRestart(rank, absl::ZeroDuration());
        job.Pause(rank, absl::ZeroDuration(), absl::Seconds(8));
      });
      EXPECT_EQ(job.Run(), Expected()) << "seed " << seed << ", killed: " << is_killed;
      EXPECT_LT(job.time(), absl::Seconds(20))
          << "seed " << seed << ", killed: " << is_killed << ": " << job.last_error();
    }
  }
}

// Nobody starts it again.
TEST_P(CollectivesSimulationTest, ARankThatIsGoneForGoodInItsLastStepHoldsNobodyUpForLong) {
  int num_befallen = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    ReplicaJob job(seed, GetParam());
    job.InTheLastStep(1, [&] {
      ++num_befallen;
      job.Pause(1, absl::ZeroDuration(), absl::Hours(2));
    });
    job.Run();
    for (int rank = 0; rank < GetParam(); ++rank) {
      EXPECT_TRUE(rank == 1 || job.HasEnded(rank)) << "rank " << rank << ", seed " << seed;
    }
  }
  EXPECT_GT(num_befallen, 0);
}

// What rank 0 says to it at its end is lost, for longer than that is tried again.
TEST_P(CollectivesSimulationTest, ALinkThatResetsAtTheEndHoldsNobodyUpForLong) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ReplicaJob job(seed, GetParam(), {.lease = absl::Seconds(20)});
    const int rank = 1 + static_cast<int>(seed) % (GetParam() - 1);
    job.FlapAtTheEndOf(0, rank, absl::Seconds(5));
    if (seed % 2 == 0) job.FlapAtTheEndOf(rank, 0, absl::Seconds(5));
    EXPECT_EQ(job.Run(), Expected()) << "seed " << seed;
    EXPECT_LT(job.time(), absl::Seconds(20)) << "seed " << seed << ": " << job.last_error();
  }
}

TEST_P(CollectivesSimulationTest, ALinkThatIsCutForAWhileHoldsTheJobUpAndNothingElse) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    ReplicaJob job(seed, GetParam());
    std::mt19937_64 random(seed);
    const int from = static_cast<int>(random() % GetParam());
    const int to = (from + 1) % GetParam();
    const absl::Duration at = absl::Milliseconds(200 + random() % 1500);
    const absl::Duration length = absl::Milliseconds(100 + random() % 8000);
    job.Cut(from, to, at, length);
    if (random() % 2 == 0) job.Cut(to, from, at, length);
    EXPECT_EQ(job.Run(), Expected()) << "seed " << seed;
  }
}

TEST_P(CollectivesSimulationTest, ARankThatSleepsLongerThanALeaseComesBack) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ReplicaJob job(seed, GetParam());
    job.Pause(static_cast<int>(seed) % GetParam(), absl::Milliseconds(200 + 61 * seed),
              absl::Milliseconds(500 * seed));
    EXPECT_EQ(job.Run(), Expected()) << "seed " << seed;
  }
}

TEST_P(CollectivesSimulationTest, MisfortunesDoNotComeSingly) {
  for (const uint64_t seed : Seeds()) {
    ReplicaJob job(seed, GetParam(), {.turn = static_cast<Turn>(seed % kNumTurns)});
    const std::string told = Befall(job, seed);
    EXPECT_EQ(job.Run(), Expected()) << "seed " << seed << told;
  }
}

// A program with all that users add: hooks that compute collectively, checkpoints of rank 0, data that ends
// at another step on each rank; all ranks may be killed at once.
TEST_P(CollectivesSimulationTest, HooksCheckpointsAndJoinsSurviveMisfortunes) {
  for (const uint64_t seed : Seeds()) {
    std::mt19937_64 random(seed);
    ReplicaJobOptions options = {.turn = static_cast<Turn>(random() % kNumTurns)};
    const bool joins = random() % 2 == 0, saves = random() % 2 == 0;
    options.measures_in_hook = !joins && random() % 2 == 0;
    if (joins) {
      options.turn = Turn::kOneStep;
      options.first_out = static_cast<int>(random() % GetParam());
      options.ends_with_error = random() % 2 == 0;
    }
    if (saves) options.checkpoint_dir = NewFolder(seed);
    ReplicaJob job(seed, GetParam(), options);
    const std::string told = Befall(job, seed, 6);
    EXPECT_EQ(job.Run(), Expected(options))
        << "seed " << seed << told << "; turn " << static_cast<int>(options.turn) << ", joins: " << joins
        << options.ends_with_error << ", saves: " << saves
        << ", measures in a hook: " << options.measures_in_hook;
    if (saves) std::filesystem::remove_all(options.checkpoint_dir);
  }
}

// Between any two messages of a step.
TEST_P(CollectivesSimulationTest, AGroupThatEndsWithinACallIsFormedAnewAndTheCallDoneOnce) {
  for (const uint64_t seed : Seeds()) {
    ReplicaJob job(seed, GetParam(), {.turn = static_cast<Turn>(seed % kNumTurns)});
    std::mt19937_64 random(seed);
    for (int i = 0; i < 8; ++i) {
      job.EndGroup(static_cast<int>(random() % GetParam()), absl::Microseconds(random() % 3'000'000));
    }
    EXPECT_EQ(job.Run(), Expected()) << "seed " << seed;
  }
}

// Rank 0 had answered when it had not joined the cluster yet: the one in office did not know it, and the
// others waited for it for ever.
TEST_P(CollectivesSimulationTest, NobodyWaitsForARankThatFallsSilentWhileTheJobBegins) {
  for (int at = 0; at < 2000; at += 50) {
    for (const int rank : {0, 1}) {
      ReplicaJob job(at + 1, GetParam(), {.elects = true});
      job.Pause(rank, absl::Milliseconds(at), absl::Hours(2));
      job.Run();
      // The silent one is not there. No other may be left waiting.
      for (int other = 0; other < GetParam(); ++other) {
        EXPECT_TRUE(other == rank || job.HasEnded(other)) << "rank " << other << ": " << rank << " at " << at;
      }
    }
  }
}

// Whichever rank is in office.
TEST_P(CollectivesSimulationTest, AnElectedAuthorityMayBeLostAsAnyRank) {
  for (const uint64_t seed : Seeds()) {
    ReplicaJob job(seed, GetParam(), {.elects = true, .turn = static_cast<Turn>(seed % kNumTurns)});
    const std::string told = Befall(job, seed);
    EXPECT_EQ(job.Run(), Expected()) << "seed " << seed << told;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CollectivesSimulationTest, testing::Values(2, 3),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace weir
