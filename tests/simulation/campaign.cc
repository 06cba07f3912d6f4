// Looks for seeds with which a counting job goes wrong (README.md).
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/command/flag_parser.h"
#include "tests/simulation/history.h"

namespace weir {
namespace {

struct Flags {
  int seed = 1;
  int minutes = 0;
  int runs = 0;
  int orders = 1;
  int first_order = 0;
  std::string kinds = "fgcopkrdeb";
  bool elections = false;
  bool ps_end = false;
  bool trace = false;
  bool until_bad = false;
};

using Kind = Misfortune::Kind;

absl::StatusOr<std::vector<Kind>> KindsOf(const std::string& letters) {
  std::vector<Kind> kinds;
  for (const char letter : letters) {
    const auto* const known = std::find_if(std::begin(Misfortune::kEvery), std::end(Misfortune::kEvery),
                                           [&](Kind kind) { return LetterOf(kind) == letter; });
    if (known != std::end(Misfortune::kEvery)) kinds.push_back(*known);
  }
  if (!kinds.empty() && kinds.size() == letters.size()) return kinds;
  return absl::InvalidArgumentError(
      absl::StrCat("--kinds takes letters of ", Flags().kinds, "stxw, got '", letters, "'"));
}

// Whether the seed is good, with the events of its history in that order (0: its own).
bool Try(int64_t seed, int order, const Flags& flags, const std::vector<Kind>& kinds) {
  History history = DrawHistory(static_cast<uint64_t>(seed), kinds, flags.elections);
  history.job.ps_end = flags.ps_end;
  history.seed += static_cast<uint64_t>(order) << 32;
  const Outcome outcome = RunHistory(history, ScratchDirectory("/tmp"), flags.trace);
  if (flags.trace) std::printf("%s", outcome.trace.c_str());
  if (outcome.violations.empty()) return true;
  const std::string orders = order == 0 ? "" : absl::StrCat(", order ", order);
  std::printf("seed %lld%s, %d workers, after %s, %d messages, trace %016llx\n", static_cast<long long>(seed),
              orders.c_str(), history.job.num_workers, absl::FormatDuration(outcome.time).c_str(),
              outcome.num_messages, static_cast<unsigned long long>(outcome.trace_hash));
  for (const Misfortune& misfortune : history.misfortunes) {
    std::printf("  %s\n", misfortune.ToString().c_str());
  }
  for (const std::string& violation : outcome.violations) std::printf("  ! %s\n", violation.c_str());
  std::printf(
      "  again: bazel run //tests/simulation:campaign -- --seed=%lld --runs=1 --kinds=%s%s%s%s --trace\n",
      static_cast<long long>(seed), flags.kinds.c_str(), flags.elections ? " --elections" : "",
      flags.ps_end ? " --ps_end" : "", order == 0 ? "" : absl::StrCat(" --first_order=", order).c_str());
  std::fflush(stdout);
  return false;
}

int Main(int argc, char** argv) {
  Flags flags;
  FlagParser parser("campaign", "[flags]",
                    "Runs seeds of a simulated training job and prints those that go wrong.");
  parser.Add("seed", &flags.seed, "the first seed");
  parser.Add("minutes", &flags.minutes, "how long to go on");
  parser.Add("runs", &flags.runs, "or how many seeds");
  parser.Add("orders", &flags.orders,
             "run each seed so often, with other orders of events: for a seed that a change has moved");
  parser.Add("first_order", &flags.first_order, "the first of them; 0 is the seed's own");
  parser.Add(
      "kinds", &flags.kinds,
      "misfortunes: f(lap), g: flap one way, c(ut), o(ne way), p(ause), k(ill), r(eplace while paused), "
      "d(isk full), e(rrors of the disk), b(lackout); with elections s(tore down), t: store cut off, "
      "x: its record is deleted, w(iped store)");
  parser.Add("elections", &flags.elections, "a store says which of several ps is the authority");
  parser.Add("ps_end", &flags.ps_end, "a ps ends when it finds that the job is over");
  parser.Add("until_bad", &flags.until_bad, "end with the first seed that goes wrong");
  parser.Add("trace", &flags.trace, "print all that happens");
  absl::Status status = parser.Parse({argv + 1, argv + argc});
  if (parser.wants_help()) return std::fputs(parser.Help().c_str(), stdout) < 0;
  const absl::StatusOr<std::vector<Kind>> kinds = KindsOf(flags.kinds);
  if (status.ok()) status = kinds.status();
  if (!status.ok()) {
    std::fprintf(stderr, "campaign: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  const absl::Time end = absl::Now() + absl::Minutes(flags.minutes);
  int64_t num_runs = 0, num_bad = 0;
  while (num_runs < flags.runs || absl::Now() < end) {
    bool is_bad = false;
    for (int order = flags.first_order; order < flags.first_order + flags.orders && !is_bad; ++order) {
      is_bad = !Try(flags.seed + num_runs, order, flags, *kinds);
    }
    num_bad += is_bad ? 1 : 0;
    ++num_runs;
    if (flags.until_bad && num_bad > 0) break;
  }
  std::printf("%lld seeds, %lld of them bad\n", static_cast<long long>(num_runs),
              static_cast<long long>(num_bad));
  return num_bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::Main(argc, argv); }
