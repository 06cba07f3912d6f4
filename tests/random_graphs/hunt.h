// Looks at one seed after the other: makes the case, checks it, shrinks what fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/random_graphs/check.h"
#include "tests/random_graphs/generator.h"

namespace weir::random_graphs {

struct HuntOptions {
  // Every way for every seed; else the plain one and three others by chance.
  bool tries_all_ways = true;
  bool shrinks = true;
  GeneratorOptions generator;
};

// What is wrong with the case of this seed, not shrunken; nullopt when nothing is. Borrows the runner.
std::optional<std::string> Hunt(uint64_t seed, const HuntOptions& options, Runner& runner);

// The first finding among the seeds [first, first + count), with the smallest graph that shows it.
// Everything runs in child processes, so crashes and endless loops are findings too. Precondition: the
// calling process has one thread.
struct HuntResult {
  int64_t num_graphs = 0;  // that were looked at, with the one of the finding
  std::optional<std::string> finding;
};
HuntResult HuntInChild(uint64_t first, int64_t count, const HuntOptions& options);

}  // namespace weir::random_graphs
