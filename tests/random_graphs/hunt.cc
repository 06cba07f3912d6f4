#include "tests/random_graphs/hunt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/random_graphs/child.h"
#include "tests/random_graphs/print.h"
#include "tests/random_graphs/shrink.h"

namespace weir::random_graphs {
namespace {

constexpr absl::Duration kPerGraph = absl::Seconds(60);
constexpr absl::Duration kShrinking = absl::Minutes(4);

std::vector<Way> ChooseWays(uint64_t seed, bool all) {
  if (all) return {std::begin(kAllWays), std::end(kAllWays)};
  Random random(~seed);
  std::vector<Way> others(std::begin(kAllWays) + 1, std::end(kAllWays));
  random.Shuffle(&others);
  return {Way::kPlain, others[0], others[1], others[2]};
}

// "" when the case could be made; then it is in *graph_case.
std::string MakeCase(uint64_t seed, const HuntOptions& options, std::optional<GraphCase>* graph_case) {
  absl::StatusOr<GraphCase> made = Generate(seed, options.generator);
  if (made.ok()) {
    *graph_case = *std::move(made);
    return "";
  }
  // An op whose gradient nobody has written is no bug of those that are there.
  if (absl::IsUnimplemented(made.status())) return "";
  return absl::StrCat("a valid graph is refused: ", made.status().ToString());
}

// As text: the way's number, or -1, and the message. Crashes and hangs are findings of the way.
Finding CheckInChild(const GraphCase& graph_case, const std::vector<Way>& ways, uint64_t seed) {
  const auto result = RunInChild(kPerGraph, [&] {
    Runner runner;
    const Finding finding = Check(graph_case, ways, seed, runner);
    return absl::StrCat(finding.way ? static_cast<int>(*finding.way) : -1, " ", finding.message);
  });
  if (!result.ok()) {
    return {ways.size() == 1 ? std::optional<Way>(ways[0]) : std::nullopt, result.status().ToString()};
  }
  const std::pair<std::string, std::string> parts = absl::StrSplit(*result, absl::MaxSplits(' ', 1));
  int way = -1;
  if (!absl::SimpleAtoi(parts.first, &way) || way < 0) return {{}, parts.second};
  return {static_cast<Way>(way), parts.second};
}

// The kind of a finding's error, up to the first name: shrinking must not lead from one bug to another.
std::string KindOf(const Finding& finding) {
  const std::string& text = finding.message;
  return text.substr(0, std::min(text.find('\''), text.find(": step")));
}

// One way that shows the finding, for a crash does not say in which it was.
Finding Narrow(const GraphCase& graph_case, const std::vector<Way>& ways, uint64_t seed, Finding finding) {
  if (finding.way || finding.message.rfind("gradients", 0) == 0) return finding;
  for (const Way way : ways) {
    if (Finding narrower = CheckInChild(graph_case, {way}, seed)) return narrower;
  }
  return finding;
}

std::string Shrunken(GraphCase graph_case, const Finding& finding, uint64_t seed) {
  std::string message = finding.message;
  const std::string kind = KindOf(finding);
  const absl::Time deadline = absl::Now() + kShrinking;
  const auto still_fails = [&](const GraphCase& candidate) {
    if (absl::Now() > deadline) return false;
    // What is chosen by chance gets several chances.
    for (uint64_t i = 0; i < (finding.way && *finding.way != Way::kPlain ? 3 : 1); ++i) {
      const Finding again =
          finding.way ? CheckInChild(candidate, {*finding.way}, seed + i) : CheckGradients(candidate);
      if (!again || KindOf(again) != kind) continue;
      message = again.message;
      return true;
    }
    return false;
  };
  if (!still_fails(graph_case)) {
    return absl::StrCat(message, "\n(not again when run once more)\n", PrintCase(graph_case));
  }
  const ShrinkOptions options = {.differentiates_again = kind.rfind("gradients", 0) == 0};
  const GraphCase small = Shrink(std::move(graph_case), still_fails, options);
  return absl::StrCat(message, "\n", PrintCase(small));
}

std::string Examine(uint64_t seed, const HuntOptions& options) {
  std::optional<GraphCase> graph_case;
  const auto made = RunInChild(kPerGraph, [&] { return MakeCase(seed, options, &graph_case); });
  if (!made.ok()) return absl::StrCat("making the graph: ", made.status().ToString());
  if (!made->empty()) return *made;
  (void)MakeCase(seed, options, &graph_case);
  if (!graph_case) return "";
  const std::vector<Way> ways = ChooseWays(seed, options.tries_all_ways);
  Finding finding = CheckInChild(*graph_case, ways, seed);
  if (!finding) return "(not again when looked at alone)";
  if (!options.shrinks) return finding.message;
  finding = Narrow(*graph_case, ways, seed, std::move(finding));
  return Shrunken(*std::move(graph_case), finding, seed);
}

}  // namespace

std::optional<std::string> Hunt(uint64_t seed, const HuntOptions& options, Runner& runner) {
  std::optional<GraphCase> graph_case;
  const std::string refusal = MakeCase(seed, options, &graph_case);
  if (!refusal.empty()) return absl::StrCat("seed ", seed, ": ", refusal);
  if (!graph_case) return std::nullopt;
  const Finding finding = Check(*graph_case, ChooseWays(seed, options.tries_all_ways), seed, runner);
  if (!finding) return std::nullopt;
  return absl::StrCat("seed ", seed, ": ", finding.message);
}

HuntResult HuntInChild(uint64_t first, int64_t count, const HuntOptions& options) {
  HuntResult result;
  while (result.num_graphs < count) {
    // The child stops at its first finding and says how far it came; when it cannot, each seed is looked at
    // alone.
    const uint64_t begin = first + static_cast<uint64_t>(result.num_graphs);
    const int64_t left = std::min<int64_t>(count - result.num_graphs, 50);
    const auto hunted = RunInChild(kPerGraph, [&] {
      Runner runner;
      for (int64_t i = 0; i < left; ++i) {
        if (const auto finding = Hunt(begin + static_cast<uint64_t>(i), options, runner))
          return absl::StrCat(i + 1, " ", *finding);
      }
      return std::string();
    });
    if (hunted.ok() && hunted->empty()) {
      result.num_graphs += left;
      continue;
    }
    int64_t from = 0, to = left;
    if (hunted.ok() && absl::SimpleAtoi(hunted->substr(0, hunted->find(' ')), &to)) from = to - 1;
    for (int64_t i = from; i < to; ++i) {
      const uint64_t seed = begin + static_cast<uint64_t>(i);
      if (!hunted.ok()) {
        const auto alone = RunInChild(kPerGraph, [&] {
          Runner runner;
          return Hunt(seed, options, runner).value_or("");
        });
        if (alone.ok() && alone->empty()) continue;
      }
      result.num_graphs += i + 1;
      result.finding = absl::StrCat("seed ", seed, ": ", Examine(seed, options));
      return result;
    }
    result.num_graphs += left;  // what failed in the crowd did not fail alone
  }
  return result;
}

}  // namespace weir::random_graphs
