// What rules ask about operands that are constants. Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace weir {

// The value of a Const node without control inputs: one that is there in every step, dead branches included.
// Null for anything else. Valid as long as the node.
const Tensor* ConstantValue(const Output& output);

// The elements of a constant of int32 or int64; nullopt for anything else.
std::optional<std::vector<int64_t>> ConstantIntegers(const Output& output);

// True for a constant of real numbers (no complex ones) all of whose elements are `value`. The sign of a zero
// counts: -0.0 is not 0.0.
bool IsConstantOf(const Output& output, double value);

}  // namespace weir
