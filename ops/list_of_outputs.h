// Outputs [begin, begin + count) of a node, for generated builder functions: `count` null ones when there is
// no node, so that a program that goes on after an error may index them.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/node.h"

namespace weir {

inline std::vector<Output> ListOfOutputs(Node* node, int64_t begin, int64_t count) {
  std::vector<Output> outputs;
  for (int64_t i = 0; i < count; ++i) {
    outputs.push_back(node == nullptr ? Output() : Output{node, static_cast<int>(begin + i)});
  }
  return outputs;
}

}  // namespace weir
