#include "tests/simulation/misfortune.h"

#include <algorithm>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

using Kind = Misfortune::Kind;

constexpr int kMostMisfortunes = 3;
constexpr absl::Duration kLatest = absl::Seconds(4);

// Short ones are what retries are for, middle ones what leases are for, long ones outlast them.
absl::Duration DrawLength(std::mt19937_64& random) {
  constexpr absl::Duration kLongest[] = {absl::Milliseconds(900), absl::Seconds(4), absl::Seconds(25)};
  return kLongest[random() % std::size(kLongest)] * (1 + static_cast<int64_t>(random() % 100)) / 100;
}

void Begin(World& world, CountingJob& job, const Misfortune& misfortune) {
  const TaskName &first = misfortune.first, &second = misfortune.second;
  switch (misfortune.kind) {
    case Kind::kFlap:
      job.Flap(first, second);
      return job.Flap(second, first);
    case Kind::kFlapOneWay:
      return job.Flap(first, second);
    case Kind::kCut:
      job.Cut(first, second);
      return job.Cut(second, first);
    case Kind::kCutOneWay:
      return job.Cut(first, second);
    case Kind::kPause:
    case Kind::kReplace:
      return world.Pause(job.life(first));
    case Kind::kKill:
      return world.Kill(job.life(first));
  }
}

absl::Duration EndOf(const Misfortune& misfortune) {
  return misfortune.at + (misfortune.kind == Kind::kReplace ? 2 : 1) * misfortune.length;
}

void Plan(World& world, CountingJob& job, const Misfortune& misfortune) {
  world.At(misfortune.at, [&world, &job, misfortune] {
    World::Life& first = job.life(misfortune.first);
    World::Life& second = job.life(misfortune.second);
    Begin(world, job, misfortune);
    const absl::Duration end = misfortune.at + misfortune.length;
    switch (misfortune.kind) {
      case Kind::kFlap:
      case Kind::kFlapOneWay:
      case Kind::kCut:
      case Kind::kCutOneWay:
        return world.At(end, [&world, &first, &second] {
          world.network().Heal(first.process(), second.process());
          world.network().Heal(second.process(), first.process());
        });
      case Kind::kPause:
        return world.At(end, [&world, &first] { world.Resume(first); });
      case Kind::kKill:
        if (first.is_killed()) job.StartLater(misfortune.first, first, misfortune.length);
        return;
      case Kind::kReplace:
        if (!first.has_ended()) job.StartLater(misfortune.first, first, misfortune.length);
        return world.At(EndOf(misfortune), [&world, &first] { world.Resume(first); });
    }
  });
}

absl::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kFlap:
      return "flap";
    case Kind::kFlapOneWay:
      return "flap one way";
    case Kind::kCut:
      return "cut";
    case Kind::kCutOneWay:
      return "cut one way";
    case Kind::kPause:
      return "pause";
    case Kind::kKill:
      return "kill";
    case Kind::kReplace:
      return "replace";
  }
  return "?";
}

}  // namespace

std::string Misfortune::ToString() const {
  const bool is_of_a_link = kind != Kind::kPause && kind != Kind::kKill && kind != Kind::kReplace;
  return absl::StrCat("at ", absl::FormatDuration(at), " ", NameOf(kind), " ", first.ToString(),
                      is_of_a_link ? absl::StrCat(" -> ", second.ToString()) : "", " for ",
                      absl::FormatDuration(length));
}

std::vector<Misfortune> DrawMisfortunes(uint64_t seed, const std::vector<TaskName>& tasks,
                                        const std::vector<Kind>& kinds) {
  std::mt19937_64 random(seed);
  std::vector<Misfortune> misfortunes(1 + random() % kMostMisfortunes);
  for (Misfortune& misfortune : misfortunes) {
    misfortune.kind = kinds[random() % kinds.size()];
    misfortune.at = kLatest * static_cast<int64_t>(random() % 1000) / 1000;
    misfortune.length = DrawLength(random);
    // The ps is at one end of every link. Only a trainer is replaced while it is there: a ps has its
    // variables.
    const size_t trainer = 1 + random() % (tasks.size() - 1);
    const bool takes_ps = misfortune.kind != Kind::kReplace && random() % 2 == 0;
    misfortune.first = tasks[takes_ps ? 0 : trainer];
    misfortune.second = tasks[takes_ps ? trainer : 0];
  }
  return misfortunes;
}

void Befall(World& world, CountingJob& job, const std::vector<Misfortune>& misfortunes) {
  absl::Duration end;
  for (const Misfortune& misfortune : misfortunes) {
    Plan(world, job, misfortune);
    end = std::max(end, EndOf(misfortune));
  }
  job.NoteHealedAt(end);
  world.At(end, [&job] { job.NoteHealed(); });
}

}  // namespace weir
