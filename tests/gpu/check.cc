#include "tests/gpu/check.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "tests/gpu/report.h"

namespace weir::gpu_check {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> parts;
  absl::Duration limit = absl::InfiniteDuration();
  std::string results = "gpu_check_results";
};

int Refuse(const Check& check, const std::string& what) {
  std::fprintf(stderr, "%s: %s (--help lists the flags)\n", check.name.c_str(), what.c_str());
  return kUsage;
}

const Part* FindPart(const Check& check, const std::string& name) {
  const auto found = std::find_if(check.parts.begin(), check.parts.end(),
                                  [&](const Part& part) { return part.name == name; });
  return found == check.parts.end() ? nullptr : &*found;
}

std::string NamesOf(const Check& check) {
  return absl::StrJoin(check.parts, ",", [](std::string* out, const Part& part) { *out += part.name; });
}

PartResult NotRun(const Part& part) {
  PartResult result{.part = part.name};
  result.tests.push_back({"(all)", Outcome::kSkipped, "the minutes were over"});
  return result;
}

}  // namespace

int RunCheck(const Check& check, const std::vector<std::string>& flags) {
  Options options;
  for (const Part& part : check.parts) options.parts.push_back(part.name);
  for (absl::string_view flag : flags) {
    double minutes = 0;
    if (flag == "--help" || flag == "-h") {
      std::printf(
          "usage: %s [--parts=%s] [--minutes=N] [--results=FOLDER]\n%s"
          "  --parts=...        some of the parts; each runs in processes of its own\n"
          "  --minutes=N        for all of them: parts whose turn does not come are skipped\n"
          "  --results=FOLDER   for %s.json and the parts' logs (default: %s)\n"
          "  --list             prints the names of the parts\n"
          "Exit code: 0 when all passed, 1 when something failed, 2 for wrong flags, 3 when everything was\n"
          "skipped, as it is on a machine without a GPU.\n",
          check.name.c_str(), NamesOf(check).c_str(), check.usage.c_str(), check.name.c_str(),
          options.results.c_str());
      return kAllPassed;
    }
    if (flag == "--list") {
      for (const Part& part : check.parts) std::printf("%s\n", part.name.c_str());
      return kAllPassed;
    }
    if (absl::ConsumePrefix(&flag, "--parts=")) {
      options.parts = absl::StrSplit(flag, ',');
      for (const std::string& name : options.parts) {
        if (FindPart(check, name) == nullptr) {
          return Refuse(check, absl::StrCat("no part is named '", name, "': there are ", NamesOf(check)));
        }
      }
    } else if (absl::ConsumePrefix(&flag, "--minutes=")) {
      if (!absl::SimpleAtod(flag, &minutes) || !(minutes > 0)) {
        return Refuse(check, absl::StrCat("--minutes=", flag, " is no number of minutes"));
      }
      options.limit = absl::Minutes(minutes);
    } else if (absl::ConsumePrefix(&flag, "--results=") && !flag.empty()) {
      options.results = std::string(flag);
    } else {
      return Refuse(check, absl::StrCat("unknown argument '", flag, "'"));
    }
  }

  std::error_code error;
  fs::create_directories(options.results, error);
  const std::string document = absl::StrCat(options.results, "/", check.name, ".json");
  const absl::Time deadline = absl::Now() + options.limit;
  std::vector<PartResult> results;
  for (const std::string& name : options.parts) {
    const Part& part = *FindPart(check, name);
    const std::string log = absl::StrCat(options.results, "/", name, ".log");
    fs::remove(log, error);
    results.push_back(absl::Now() < deadline ? RunPart(part, deadline, log) : NotRun(part));
    std::fputs(TextOf(results.back()).c_str(), stdout);
    std::fflush(stdout);
    // After each part: who ends this keeps what there is.
    std::ofstream file(document, std::ios::trunc);
    file << JsonOf(results, check.facts);
    if (!file.flush()) return Refuse(check, absl::StrCat("cannot write ", document));
  }
  if (check.compares) std::fputs(ComparisonOf(results).c_str(), stdout);
  std::printf("Written: %s and the logs of the parts beside it\n%s\n", document.c_str(),
              SummaryOf(results).c_str());
  bool has_passed = false, has_failed = false;
  for (const PartResult& result : results) {
    has_passed = has_passed || result.Count(Outcome::kPassed) > 0;
    has_failed = has_failed || result.Count(Outcome::kFailed) > 0;
  }
  return has_failed ? kSomeFailed : has_passed ? kAllPassed : kNothingRan;
}

}  // namespace weir::gpu_check
