#include "distributed/metrics/metrics.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const Metrics& metrics) {
  MetricsText text;
  metrics.AppendTo(&text);
  return text.Take();
}

TEST(MetricsTest, CallsAreCountedByMethodDirectionAndOutcome) {
  Metrics metrics;
  Metrics::Call call{.method = "/weir.Worker/RunPartition",
                     .bytes_received = 100,
                     .bytes_sent = 10,
                     .time = absl::Milliseconds(2)};
  metrics.Count(call);
  call.time = absl::Seconds(100);
  call.is_ok = false;
  metrics.Count(call);
  call.direction = Metrics::Direction::kMade;
  metrics.Count(call);
  const std::string text = TextOf(metrics);
  const std::string labels = "{direction=\"received\",method=\"/weir.Worker/RunPartition\"";
  for (const std::string& line : {absl::StrCat("weir_calls_total", labels, ",outcome=\"ok\"} 1\n"),
                                  absl::StrCat("weir_calls_total", labels, ",outcome=\"failed\"} 1\n"),
                                  absl::StrCat("weir_received_bytes_total", labels, "} 200\n"),
                                  absl::StrCat("weir_sent_bytes_total", labels, "} 20\n"),
                                  absl::StrCat("weir_call_seconds_bucket", labels, ",le=\"0.001\"} 0\n"),
                                  absl::StrCat("weir_call_seconds_bucket", labels, ",le=\"0.003\"} 1\n"),
                                  absl::StrCat("weir_call_seconds_bucket", labels, ",le=\"60\"} 1\n"),
                                  absl::StrCat("weir_call_seconds_bucket", labels, ",le=\"+Inf\"} 2\n"),
                                  absl::StrCat("weir_call_seconds_sum", labels, "} 100.002\n"),
                                  absl::StrCat("weir_call_seconds_count", labels, "} 2\n"),
                                  std::string("# TYPE weir_call_seconds histogram\n"),
                                  std::string("weir_calls_total{direction=\"made\",method=\"/weir.Worker/"
                                              "RunPartition\",outcome=\"failed\"} 1\n")}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTest, ManyMethodsDoNotGrowIt) {
  Metrics metrics;
  for (int i = 0; i < 10'000; ++i) metrics.Count({.method = absl::StrCat("/m", i)});
  const std::string text = TextOf(metrics);
  EXPECT_LT(text.size(), 200'000u);
  EXPECT_THAT(text, HasSubstr("method=\"other\",outcome=\"ok\"} 9936\n"));
}

TEST(MetricsTest, LabelsAreEscaped) {
  MetricsText text;
  text.Begin("m", "gauge", "Help.");
  text.Sample({{"a", "x\"y\\z\nw"}}, 0.5);
  EXPECT_EQ(text.Take(), "# HELP m Help.\n# TYPE m gauge\nm{a=\"x\\\"y\\\\z\\nw\"} 0.5\n");
}

TEST(MetricsTest, TheProcessIsMeasured) {
  MetricsText text;
  AppendProcessMetrics(&text);
  const std::string process = text.Take();
  EXPECT_THAT(process, HasSubstr("\nprocess_resident_memory_bytes "));
  EXPECT_THAT(process, Not(HasSubstr("process_open_fds 0\n")));
}

}  // namespace
}  // namespace weir
