// What a check found, for people and as JSON. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/part_runner.h"

namespace weir::gpu_check {

// "kernels: 1530 passed, 1 failed, 0 skipped (34 s)", and below it what failed, and why something was
// skipped.
std::string TextOf(const PartResult& result);

// A line for each metric of Weir that a peer has measured too, with how many times as fast as the peer Weir
// was: "mlp_b32_step: 61 us, 5.2 times as fast as torch 2.11, 1.9 times as
// fast as torch 2.11 with _compile". Of several
// measurements the middle one counts.
std::string ComparisonOf(const std::vector<PartResult>& results);

// "N passed, N failed, N skipped" of all of them.
std::string SummaryOf(const std::vector<PartResult>& results);

// A document with the counts, the parts with everything that did not pass, and the metrics. `facts` are
// entries of its own, such as a version.
std::string JsonOf(const std::vector<PartResult>& results,
                   const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace weir::gpu_check
