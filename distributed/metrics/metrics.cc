#include "distributed/metrics/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weir {
namespace {

std::string Escaped(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
    } else {
      if (c == '"' || c == '\\') escaped.push_back('\\');
      escaped.push_back(c);
    }
  }
  return escaped;
}

std::string Number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kExact = 9e15;  // integers that a double holds
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  return absl::StrFormat("%.9g", value);
}

int CountEntries(const char* folder) {
  DIR* const opened = opendir(folder);
  if (opened == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = readdir(opened)) count += entry->d_name[0] != '.';
  closedir(opened);
  return count;
}

constexpr absl::string_view Name(Metrics::Direction direction) {
  return direction == Metrics::Direction::kReceived ? "received" : "made";
}

}  // namespace

void MetricsText::Begin(absl::string_view name, absl::string_view type, absl::string_view help) {
  name_ = std::string(name);
  absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void MetricsText::Sample(const Labels& labels, double value, absl::string_view suffix) {
  absl::StrAppend(&text_, name_, suffix);
  const char* separator = "{";
  for (const auto& [key, label] : labels) {
    absl::StrAppend(&text_, separator, key, "=\"", Escaped(label), "\"");
    separator = ",";
  }
  absl::StrAppend(&text_, labels.empty() ? "" : "}", " ", Number(value), "\n");
}

void MetricsText::Gauge(absl::string_view name, absl::string_view help, double value) {
  Begin(name, "gauge", help);
  Sample({}, value);
}

void Metrics::Count(const Call& call) {
  const double seconds = absl::ToDoubleSeconds(call.time);
  size_t bucket = 0;
  while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
  absl::MutexLock lock(&mutex_);
  std::pair<Direction, std::string> key(call.direction, call.method);
  if (counts_.size() >= kMaxMethods && !counts_.contains(key)) key.second = "other";
  Counts& counts = counts_[key];
  ++(call.is_ok ? counts.num_ok : counts.num_failed);
  counts.bytes_received += call.bytes_received;
  counts.bytes_sent += call.bytes_sent;
  counts.seconds += seconds;
  ++counts.buckets[bucket];
}

void Metrics::AppendTo(MetricsText* text) const {
  absl::MutexLock lock(&mutex_);
  const auto labels = [](const auto& key) {
    return MetricsText::Labels{{"direction", std::string(Name(key.first))}, {"method", key.second}};
  };
  text->Begin("weir_calls_total", "counter", "Calls between tasks that have ended.");
  for (const auto& [key, counts] : counts_) {
    MetricsText::Labels with_outcome = labels(key);
    with_outcome.emplace_back("outcome", "ok");
    text->Sample(with_outcome, static_cast<double>(counts.num_ok));
    with_outcome.back().second = "failed";
    text->Sample(with_outcome, static_cast<double>(counts.num_failed));
  }
  text->Begin("weir_received_bytes_total", "counter", "Bytes of requests and replies that came.");
  for (const auto& [key, counts] : counts_) {
    text->Sample(labels(key), static_cast<double>(counts.bytes_received));
  }
  text->Begin("weir_sent_bytes_total", "counter", "Bytes of requests and replies that went.");
  for (const auto& [key, counts] : counts_) text->Sample(labels(key), static_cast<double>(counts.bytes_sent));
  text->Begin("weir_call_seconds", "histogram", "From a request to its reply.");
  for (const auto& [key, counts] : counts_) {
    int64_t total = 0;
    MetricsText::Labels with_bound = labels(key);
    with_bound.emplace_back("le", "");
    for (size_t i = 0; i < counts.buckets.size(); ++i) {
      total += counts.buckets[i];
      with_bound.back().second = i < kBounds.size() ? absl::StrFormat("%g", kBounds[i]) : "+Inf";
      text->Sample(with_bound, static_cast<double>(total), "_bucket");
    }
    text->Sample(labels(key), counts.seconds, "_sum");
    text->Sample(labels(key), static_cast<double>(total), "_count");
  }
}

void AppendProcessMetrics(MetricsText* text) {
  int64_t total = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> total >> resident) {
    text->Gauge("process_resident_memory_bytes", "Memory that the process has in RAM.",
                static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  }
  if (const int count = CountEntries("/proc/self/fd"); count >= 0) {
    text->Gauge("process_open_fds", "Open file descriptors.", count);
  }
  if (const int count = CountEntries("/proc/self/task"); count >= 0) {
    text->Gauge("process_threads", "Threads.", count);
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    text->Begin("process_cpu_seconds_total", "counter", "Processor time.");
    text->Sample({}, seconds(usage.ru_utime) + seconds(usage.ru_stime));
  }
}

}  // namespace weir
