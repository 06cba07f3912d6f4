#include "tests/simulation/world.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {

World::Life::Life(World& world, const std::string& name, uint64_t number)
    : world_(world),
      number_(number),
      environment_(world.scheduler_, name, world.DrawClock(name)),
      started_(environment_.SteadyNow()),
      transport_(world.network_.MakeTransport(environment_)) {}

ServerOptions World::Life::server_options() {
  ServerOptions options;
  options.num_threads = 1;
  options.transport = transport_.get();
  options.environment = &environment_;
  options.simulated_process = {environment_.SteadyNow() - started_, number_};
  return options;
}

void World::Life::AwaitEndOfWorld() {
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  environment_.Await(mutex, absl::Condition(&world_.is_over_), absl::InfiniteFuture());
}

void World::Life::Sleep(absl::Duration duration) {
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  bool never = false;
  environment_.Await(mutex, absl::Condition(&never), environment_.Now() + duration);
}

World::World(uint64_t seed, const NetworkOptions& network, const ClockOptions& clocks)
    : scheduler_(seed),
      network_(scheduler_, network),
      clocks_(clocks),
      nature_(scheduler_, "nature"),
      begin_(scheduler_.now()) {}

World::~World() {
  if (const std::string left = End(); !left.empty()) {
    std::fprintf(stderr, "the world has ended, but not all who live in it:\n%s", left.c_str());
    std::abort();
  }
}

SimulatedClock World::DrawClock(absl::string_view name) {
  // From -most to most.
  const auto draw = [this](int64_t most) {
    if (most == 0) return int64_t{0};
    return static_cast<int64_t>(scheduler_.Below(2 * static_cast<size_t>(most) + 1)) - most;
  };
  const int64_t most_ahead = absl::ToInt64Milliseconds(clocks_.most_ahead);
  const auto [place, is_new] = clocks_of_tasks_.try_emplace(std::string(name.substr(0, name.find(' '))));
  SimulatedClock& clock = place->second;
  if (is_new || clocks_.lives_move) {
    clock.ahead = absl::Milliseconds(draw(most_ahead));
    clock.drift = draw(clocks_.most_drift);
  }
  clock.ahead_of_counted = absl::Milliseconds(draw(most_ahead));
  return clock;
}

World::Life& World::Start(const std::string& name, std::function<void(Life&)> program) {
  Life& life = lives_.emplace_back(*this, name, lives_.size() + 1);
  scheduler_.Note({"start ", life.name()});
  const auto thread = life.environment_.StartThread([&life, program = std::move(program)] {
    program(life);
    life.has_ended_ = true;
  });
  if (!thread.ok()) std::abort();  // a simulation has as many as it asks for
  return life;
}

void World::Pause(Life& life) {
  scheduler_.Note({"pause ", life.name()});
  life.process().is_paused = true;
}

void World::Resume(Life& life) {
  scheduler_.Note({"resume ", life.name()});
  life.process().is_paused = life.is_killed_;
}

void World::Kill(Life& life) {
  if (life.has_ended_ || life.is_killed_) return;
  scheduler_.Note({"kill ", life.name()});
  life.is_killed_ = true;
  life.process().is_paused = true;
  network_.Kill(life.process());
}

void World::At(absl::Duration time, std::function<void()> what) {
  scheduler_.AddEvent(nature_.process(), begin_ + time, [this, what = std::move(what)] {
    if (!is_over_) what();
  });
}

bool World::RunUntil(absl::FunctionRef<bool()> is_over, absl::Duration limit) {
  return scheduler_.RunUntil(is_over, begin_ + limit);
}

std::string World::End() {
  constexpr absl::Duration kPatience = absl::Hours(12);
  if (!is_over_) {
    is_over_ = true;
    network_.Close();
    for (Life& life : lives_) {
      life.process().is_paused = false;
      if (!life.has_ended_ && life.on_end_of_world_) life.on_end_of_world_();
    }
  }
  const auto all_have_ended = [this] {
    for (const Life& life : lives_) {
      if (!life.has_ended_) return false;
    }
    return true;
  };
  if (scheduler_.RunUntil(all_have_ended, scheduler_.now() + kPatience)) {
    // Threads that were only started by them.
    while (scheduler_.RunOne()) {
    }
    return "";
  }
  return scheduler_.DescribeThreads();
}

}  // namespace weir
