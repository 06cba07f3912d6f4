// What a task counts, for Prometheus: calls by method and direction, their bytes and times, and what others
// are asked when somebody looks (gauges).
//
// The text is Prometheus's exposition format, version 0.0.4. Names of counters and units follow its
// conventions: seconds, bytes, "_total".
//
// Thread safety: all methods. Counting a call takes one lock for a moment.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace weir {

// Appends metrics in the exposition format.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<absl::string_view, std::string>>;

  // Begins a metric; its samples follow. `type`: "counter", "gauge" or "histogram".
  void Begin(absl::string_view name, absl::string_view type, absl::string_view help);
  // `suffix`: "_bucket", "_sum" and "_count" of histograms.
  void Sample(const Labels& labels, double value, absl::string_view suffix = "");
  // A metric of one sample.
  void Gauge(absl::string_view name, absl::string_view help, double value);

  std::string Take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

class Metrics {
 public:
  enum class Direction { kReceived, kMade };

  struct Call {
    Direction direction = Direction::kReceived;
    // "/weir.Worker/RunPartition". Of calls that others make only what this task serves: it becomes a label.
    std::string method;
    bool is_ok = true;
    int64_t bytes_received = 0, bytes_sent = 0;
    absl::Duration time;
  };
  void Count(const Call& call);

  // The counts so far.
  void AppendTo(MetricsText* text) const;

  static constexpr size_t kMaxMethods = 64;  // further ones are counted as "other"

 private:
  // Upper bounds, in seconds, of what is counted in each bucket; and one above all.
  static constexpr std::array<double, 12> kBounds = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03,
                                                     0.1,    0.3,    1,     3,     10,   60};
  struct Counts {
    int64_t num_ok = 0, num_failed = 0, bytes_received = 0, bytes_sent = 0;
    double seconds = 0;
    std::array<int64_t, kBounds.size() + 1> buckets{};
  };

  mutable absl::Mutex mutex_;
  std::map<std::pair<Direction, std::string>, Counts> counts_ ABSL_GUARDED_BY(mutex_);
};

// Of this process: memory, descriptors, threads, processor time, from /proc; what cannot be read is left out.
void AppendProcessMetrics(MetricsText* text);

}  // namespace weir
