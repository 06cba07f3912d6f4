// Tests of this program as a part of a check.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/part_runner.h"

namespace weir::gpu_check {

struct GtestPart {
  std::string filter;  // --gtest_filter's, of tests of this program
  // Whether the process is of no use any more; asked after every test.
  std::function<bool()> is_lost = [] { return false; };
  // Tests that are skipped with this text are none of the part.
  std::string left_out_text;
};

// Initializes googletest. True when there are flags of its own ("--gtest_filter=..."): somebody wants to run
// tests without parts.
bool InitializeTests(int argc, char** argv);

// As Part::run. Precondition: InitializeTests was called in the process that this one is a copy of.
int RunGtestPart(const GtestPart& part, Progress& progress, const std::vector<std::string>& done);

}  // namespace weir::gpu_check
