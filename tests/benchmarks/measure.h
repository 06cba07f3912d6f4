// How benchmarks measure and report.
//
// Every metric is one JSON line on stdout: {"peer": "weir", "metric": ..., "value": ..., "unit": ...,
// "detail": {...}}. Names and units are those that the TensorFlow peer of the same metrics prints, so that
// two outputs can be divided line by line. Only ratios of runs that alternate on one idle machine mean
// anything.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir::bench {

// Seconds of one call: the median over `rounds` rounds, each of which calls as often as fits into its share
// of min_seconds. WEIR_BENCH_SECONDS in the environment scales min_seconds (0: every benchmark once, as a
// test).
double MedianSeconds(const std::function<void()>& call, double min_seconds = 1.0, int rounds = 7,
                     int warmup = 3);

// WEIR_BENCH_SECONDS, or 1.
double TimeScale();

void Emit(absl::string_view metric, double value, absl::string_view unit,
          const std::map<std::string, double>& detail = {});

// Ends the process with a message: a benchmark that fails has no result.
[[noreturn]] void Fail(absl::string_view what);

// The value of an absl::StatusOr, or the end of the process.
template <typename T>
auto Must(T status_or, absl::string_view what = "") {
  if (!status_or.ok()) Fail(std::string(what) + " " + std::string(status_or.status().ToString()));
  return *std::move(status_or);
}
void MustOk(const absl::Status& status);

// How the tasks of a benchmark talk: over Unix sockets and shared memory, as tasks of one machine do, or over
// TCP, as between machines (WEIR_BENCH_NETWORK=tcp in the environment, which processes that are started
// inherit).
bool IsOverTcp();
// For its time.
class OverTcp {
 public:
  OverTcp();
  ~OverTcp();
};

// Peak resident memory of this process, in MB.
double PeakMegabytes();

}  // namespace weir::bench
