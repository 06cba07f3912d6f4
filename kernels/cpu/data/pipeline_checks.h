// What AssertNext and AssertPrev say of a pipeline: which datasets are made of them, and what they are made
// of. TensorFlow's tests ask so whether a pipeline was rewritten. A repetition is checked as its first pass:
// TensorFlow counts passes in the names, and asks in each.
//
// Functions without state; safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/data/dataset.h"

namespace weir {

// TensorFlow's name of the dataset's iterator: "Map", "BatchV2", "FiniteTake", "MemoryCacheImpl". Empty for
// one that its iterators' names leave out.
std::string IteratorName(const Dataset& dataset);

// InvalidArgument, with TensorFlow's text, unless all assertions below the dataset hold. `above`: the names
// of what the dataset's iterator is below, from the outermost.
absl::Status CheckAssertions(const Dataset& dataset, std::vector<std::string> above);

}  // namespace weir
