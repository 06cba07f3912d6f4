#include "tests/gpu/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::gpu_check {
namespace {

std::string Metric(const std::string& peer, const std::string& name, double value, const std::string& unit) {
  return nlohmann::json{{"peer", peer}, {"metric", name}, {"value", value}, {"unit", unit}}.dump();
}

TEST(Report, TextSaysWhatFailedAndWhySomethingWasSkipped) {
  const PartResult result{.part = "kernels",
                          .tests = {{"a", Outcome::kPassed, ""},
                                    {"b", Outcome::kFailed, "first line\nsecond line"},
                                    {"c", Outcome::kSkipped, "no GPU"},
                                    {"d", Outcome::kSkipped, "no GPU"}},
                          .took = absl::Milliseconds(2600)};
  EXPECT_EQ(TextOf(result),
            "kernels: 1 passed, 1 failed, 2 skipped (3 s)\n  FAILED b: first line\n  skipped 2: no GPU\n");
  EXPECT_EQ(SummaryOf({result, result}), "2 passed, 2 failed, 4 skipped");
}

TEST(Report, AfterTwentyFailuresTheirNumberFollows) {
  PartResult result{.part = "p"};
  for (int i = 0; i < 23; ++i) result.tests.push_back({std::to_string(i), Outcome::kFailed, "why"});
  const std::string text = TextOf(result);
  EXPECT_NE(text.find("FAILED 19: why\n  and 3 more\n"), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(JsonOf({result}, {}))["parts"][0]["failures"].size(), 23u);
}

// What a device answered may be no text at all.
TEST(Report, TheDocumentIsJsonWhateverATestSays) {
  const PartResult result{
      .part = "p", .tests = {{"a", Outcome::kFailed, "\xff\x00\"}"}}, .metrics = {"{no json"}};
  const auto json = nlohmann::json::parse(JsonOf({result}, {{"on", "GPUs"}}));
  EXPECT_EQ(json["on"], "GPUs");
  EXPECT_EQ(json["failed"], 1);
  EXPECT_TRUE(json["metrics"].empty());
}

TEST(Report, TimesAndRatesAreComparedTheRightWayRound) {
  const PartResult weir{.part = "benchmarks",
                        .metrics = {Metric("weir", "mlp", 50, "us"), Metric("weir", "mlp", 900, "us"),
                                    Metric("weir", "mlp", 60, "us"), Metric("weir", "net", 1200, "steps/s"),
                                    Metric("weir", "alone", 1, "us")}};
  const PartResult torch{
      .part = "pytorch",
      .metrics = {Metric("torch 2", "mlp", 300, "us"), Metric("torch 2", "net", 600, "steps/s"),
                  Metric("torch 2", "net_compile", 1000, "steps/s")}};
  EXPECT_EQ(ComparisonOf({weir, torch}),
            "mlp: 60 us, 5 times as fast as torch 2\n"
            "net: 1200 steps/s, 2 times as fast as torch 2, 1.2 times as fast as torch 2 with _compile\n");
  EXPECT_EQ(ComparisonOf({weir}), "");
}

}  // namespace
}  // namespace weir::gpu_check
