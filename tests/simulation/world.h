// A cluster in one process: lives of tasks, each with its environment and its way into a network, and what
// happens to them. One seed is one history.
//
//   World world(seed, {});
//   World::Life& ps = world.Start("ps:0", [&](World::Life& life) { ... Server::Start(task,
//   life.server_options())
//   ... }); world.RunUntil([&] { return ps.has_ended(); }, absl::Minutes(10));
//
// A life is a process: a program on a thread of its own and all that it starts. A life that is killed stops
// in the middle of whatever it does and does nothing any more. Since it cannot be torn out of this process,
// it is thawed when the world ends, with no network left: everything it waits for fails, and it goes the way
// of its errors. Programs must end then; the destructor says which do not. What a program notes for the test
// after `is_killed()` does not count.
//
// Thread safety: as the scheduler's.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/server.h"
#include "kernels/simulation/simulated_environment.h"
#include "tests/simulation/simulated_network.h"

namespace weir {

// How far the clocks of the tasks may differ from the world's, either way. Zero: they show its time. Lives of
// one task are on one machine, so that their clocks show the same, but begin to count at different times;
// `lives_move`: each is on a machine of its own.
struct ClockOptions {
  absl::Duration most_ahead;
  int64_t most_drift = 0;  // millionths
  bool lives_move = false;
};

class World {
 public:
  class Life {
   public:
    // `number`: of the world's lives, from 1.
    Life(World& world, const std::string& name, uint64_t number);

    const std::string& name() const { return environment_.process().name; }
    World& world() { return world_; }
    SimulatedEnvironment& environment() { return environment_; }
    Scheduler::Process& process() { return environment_.process(); }
    // For Server::Start: one thread that computes, this life's environment and transport, and its age by now,
    // for it may have been paused before its first line.
    ServerOptions server_options();

    bool is_killed() const { return is_killed_; }
    bool has_ended() const { return has_ended_; }

    // Of the program: lets time pass.
    void Sleep(absl::Duration duration);
    // Of the program: returns when the world ends. What the test looks at stays until then.
    void AwaitEndOfWorld();
    // Called when the world ends, before anything is thawed: what lets a program end that waits for its
    // peers.
    void OnEndOfWorld(std::function<void()> call) { on_end_of_world_ = std::move(call); }

   private:
    friend class World;
    World& world_;
    const uint64_t number_;
    SimulatedEnvironment environment_;
    const absl::Time started_;
    std::unique_ptr<Transport> transport_;
    bool is_killed_ = false;
    bool has_ended_ = false;
    std::function<void()> on_end_of_world_;
  };

  explicit World(uint64_t seed, const NetworkOptions& network = {}, const ClockOptions& clocks = {});
  // End().
  ~World();

  Scheduler& scheduler() { return scheduler_; }
  SimulatedNetwork& network() { return network_; }
  // Since the world began.
  absl::Duration time() const { return scheduler_.now() - begin_; }
  bool is_over() const { return is_over_; }

  // A name is that of a task, up to a space.
  Life& Start(const std::string& name, std::function<void(Life&)> program);
  void Pause(Life& life);
  void Resume(Life& life);
  // As kill -9 does: its connections are reset, and its port is free.
  void Kill(Life& life);

  // Something that happens at a time since the world began, whatever else does.
  void At(absl::Duration time, std::function<void()> what);
  // Until `is_over` or the time since the world began; whether is_over.
  bool RunUntil(absl::FunctionRef<bool()> is_over, absl::Duration limit);
  // Ends all lives. Returns what has not ended; empty when all have.
  std::string End();

 private:
  // Those of the next life of that name.
  SimulatedClock DrawClock(absl::string_view name);

  Scheduler scheduler_;
  SimulatedNetwork network_;
  const ClockOptions clocks_;
  std::map<std::string, SimulatedClock> clocks_of_tasks_;
  SimulatedEnvironment nature_;  // what happens by itself
  const absl::Time begin_;
  bool is_over_ = false;
  std::list<Life> lives_;
};

}  // namespace weir
