#include "tests/benchmarks/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace weir::bench {
namespace {

constexpr char kNetwork[] = "WEIR_BENCH_NETWORK";
constexpr char kForNow[] = "WEIR_BENCH_OVER_TCP";  // what OverTcp tells the processes that it starts

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double SecondsOf(const std::function<void()>& call, int count) {
  const double begin = Now();
  for (int i = 0; i < count; ++i) call();
  return (Now() - begin) / count;
}

}  // namespace

double TimeScale() {
  const char* text = std::getenv("WEIR_BENCH_SECONDS");
  double scale = 1;
  return text != nullptr && absl::SimpleAtod(text, &scale) ? scale : 1;
}

double MedianSeconds(const std::function<void()>& call, double min_seconds, int rounds, int warmup) {
  min_seconds *= TimeScale();
  if (min_seconds == 0) return SecondsOf(call, 1);
  for (int i = 0; i < warmup; ++i) call();
  const double once = std::max(SecondsOf(call, 1), 1e-8);
  const int count = std::max(1, static_cast<int>(min_seconds / rounds / once));
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(SecondsOf(call, count));
  std::sort(seconds.begin(), seconds.end());
  return seconds[rounds / 2];
}

void Emit(absl::string_view metric, double value, absl::string_view unit,
          const std::map<std::string, double>& detail) {
  const std::string pairs = absl::StrJoin(detail, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppendFormat(out, "\"%s\": %.5g", entry.first, entry.second);
  });
  std::printf(
      "{\"peer\": \"weir\", \"metric\": \"%s\", \"value\": %.5g, \"unit\": \"%s\", \"detail\": {%s}}\n",
      std::string(metric).c_str(), value, std::string(unit).c_str(), pairs.c_str());
  std::fflush(stdout);
}

void Fail(absl::string_view what) {
  std::fprintf(stderr, "benchmark failed: %s\n", std::string(what).c_str());
  std::exit(1);
}

void MustOk(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

bool IsOverTcp() {
  const char* const network = std::getenv(kNetwork);
  return std::getenv(kForNow) != nullptr || (network != nullptr && absl::string_view(network) == "tcp");
}

OverTcp::OverTcp() { setenv(kForNow, "1", /*replace=*/1); }
OverTcp::~OverTcp() { unsetenv(kForNow); }

double PeakMegabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!absl::StartsWith(line, "VmHWM:")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    double kilobytes = 0;
    if (words.size() > 1 && absl::SimpleAtod(words[1], &kilobytes)) return kilobytes / 1024;
  }
  return 0;
}

}  // namespace weir::bench
