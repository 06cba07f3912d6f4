// The command line of a check that consists of parts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/part_runner.h"

namespace weir::gpu_check {

struct Check {
  std::string name;   // of the program, for people
  std::string usage;  // lines on flags of its own
  std::vector<Part> parts;
  std::vector<std::pair<std::string, std::string>> facts;  // for the document
  bool compares = true;                                    // what was measured (report.h)
};

// Exit codes.
constexpr int kAllPassed = 0, kSomeFailed = 1, kUsage = 2, kNothingRan = 3;

// Runs the parts that the flags name, writes FOLDER/NAME.json and FOLDER/PART.log, prints a line for each
// part and, last, "N passed, N failed, N skipped". kNothingRan: every test was skipped.
//
//   --parts=a,b         some of the parts
//   --minutes=N         for all of them: parts whose turn does not come are skipped
//   --results=FOLDER    made if need be (default: gpu_check_results)
//   --list              prints the names of the parts
int RunCheck(const Check& check, const std::vector<std::string>& flags);

}  // namespace weir::gpu_check
