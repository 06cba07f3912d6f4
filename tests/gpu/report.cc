#include "tests/gpu/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace weir::gpu_check {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostLines = 20;  // of failures, for people: all of them are in the document

int Sum(const std::vector<PartResult>& results, Outcome outcome) {
  int sum = 0;
  for (const PartResult& result : results) sum += result.Count(outcome);
  return sum;
}

absl::string_view FirstLine(absl::string_view text) { return text.substr(0, text.find('\n')); }

std::string CountsOf(int passed, int failed, int skipped) {
  return absl::StrCat(passed, " passed, ", failed, " failed, ", skipped, " skipped");
}

// How many tests were skipped for each reason.
std::map<std::string, int> ReasonsOf(const PartResult& result) {
  std::map<std::string, int> reasons;
  for (const TestResult& test : result.tests) {
    if (test.outcome == Outcome::kSkipped) ++reasons[std::string(FirstLine(test.text))];
  }
  return reasons;
}

// A text from a device may hold anything.
std::string Written(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

std::string TextOf(const PartResult& result) {
  std::string text = absl::StrCat(result.part, ": ",
                                  CountsOf(result.Count(Outcome::kPassed), result.Count(Outcome::kFailed),
                                           result.Count(Outcome::kSkipped)),
                                  " (", absl::ToInt64Seconds(result.took + absl::Milliseconds(500)), " s)\n");
  size_t num_failures = 0;
  for (const TestResult& test : result.tests) {
    if (test.outcome != Outcome::kFailed) continue;
    if (++num_failures > kMostLines) continue;
    absl::StrAppend(&text, "  FAILED ", test.test, ": ", FirstLine(test.text), "\n");
  }
  if (num_failures > kMostLines) absl::StrAppend(&text, "  and ", num_failures - kMostLines, " more\n");
  for (const auto& [reason, count] : ReasonsOf(result)) {
    absl::StrAppend(&text, "  skipped ", count, ": ", reason, "\n");
  }
  for (const std::string& metric : result.metrics) absl::StrAppend(&text, "  ", metric, "\n");
  return text;
}

std::string SummaryOf(const std::vector<PartResult>& results) {
  return CountsOf(Sum(results, Outcome::kPassed), Sum(results, Outcome::kFailed),
                  Sum(results, Outcome::kSkipped));
}

std::string ComparisonOf(const std::vector<PartResult>& results) {
  struct Measured {
    std::string peer, unit;
    std::vector<double> values;
    double Middle() {
      std::sort(values.begin(), values.end());
      return values[values.size() / 2];
    }
  };
  std::map<std::string, Measured> ours, theirs;
  for (const PartResult& result : results) {
    for (const std::string& line : result.metrics) {
      const Json metric = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!metric.is_object() || !metric["value"].is_number()) continue;
      const auto peer = metric.value("peer", std::string());
      Measured& measured = (peer == "weir" ? ours : theirs)[metric.value("metric", std::string())];
      measured.peer = peer;
      measured.unit = metric.value("unit", std::string());
      measured.values.push_back(metric["value"].get<double>());
    }
  }
  std::string text;
  for (auto& [name, weir] : ours) {
    std::string line;
    for (const char* const suffix : {"", "_compile"}) {
      const auto peer = theirs.find(name + suffix);
      if (peer == theirs.end() || peer->second.unit != weir.unit) continue;
      const double ratio = weir.Middle() / peer->second.Middle();
      // Rates are better large, times small.
      const double times = absl::EndsWith(weir.unit, "/s") ? ratio : 1 / ratio;
      absl::StrAppend(&line, absl::StrFormat(", %.3g times as fast as %s%s", times, peer->second.peer,
                                             *suffix == 0 ? "" : absl::StrCat(" with ", suffix)));
    }
    if (!line.empty()) absl::StrAppendFormat(&text, "%s: %.4g %s%s\n", name, weir.Middle(), weir.unit, line);
  }
  return text;
}

std::string JsonOf(const std::vector<PartResult>& results,
                   const std::vector<std::pair<std::string, std::string>>& facts) {
  Json json;
  for (const auto& [name, fact] : facts) json[name] = fact;
  json["passed"] = Sum(results, Outcome::kPassed);
  json["failed"] = Sum(results, Outcome::kFailed);
  json["skipped"] = Sum(results, Outcome::kSkipped);
  json["parts"] = Json::array();
  json["metrics"] = Json::array();
  for (const PartResult& result : results) {
    Json part;
    part["name"] = result.part;
    part["passed"] = result.Count(Outcome::kPassed);
    part["failed"] = result.Count(Outcome::kFailed);
    part["skipped"] = result.Count(Outcome::kSkipped);
    part["seconds"] = absl::ToDoubleSeconds(result.took);
    part["processes"] = result.num_processes;
    part["failures"] = Json::array();
    for (const TestResult& test : result.tests) {
      if (test.outcome == Outcome::kFailed)
        part["failures"].push_back({{"test", test.test}, {"why", test.text}});
    }
    part["skipped_for"] = Json::object();
    for (const auto& [reason, count] : ReasonsOf(result)) part["skipped_for"][reason] = count;
    json["parts"].push_back(std::move(part));
    for (const std::string& line : result.metrics) {
      Json metric = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (metric.is_object()) json["metrics"].push_back(std::move(metric));
    }
  }
  return Written(json) + "\n";
}

}  // namespace weir::gpu_check
