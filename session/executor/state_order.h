// The order in which instructions must touch state, where no edge of the graph says so.
//
// A program that runs on one thread touches variables in the order of its instructions. When kernels overlap,
// that order would be lost: these edges keep it. A read of a variable stays before the update that follows
// it. So does every instruction that computes with the value read, because an update writes in place if no
// one else holds the buffer. Instructions that print or touch files keep their order as well. Random nodes
// need no order: each has a stream of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/node.h"

namespace weir {

// Whether the op leaves variables as they are.
bool OnlyReadsVariable(absl::string_view op);

// One instruction, as far as it matters here.
struct StateAccess {
  const Node* node = nullptr;
  absl::Span<const int32_t> inputs;        // slots
  absl::Span<const int32_t> predecessors;  // instructions, by edges of the graph
  bool may_wait = false;                   // for others: a receive, a kernel that blocks
};

// By instruction: those before it that it must follow. What depends on something that waits gets no such
// edge: it runs when others allow it, and an edge could close a cycle through another device. nullopt when a
// resource handle comes from anything but a VarHandleOp of the program: its variable is then unknown.
// `writers`: by slot, the instruction that fills it; -1 for arguments and constants.
std::optional<std::vector<std::vector<int32_t>>> FindStateOrder(absl::Span<const StateAccess> instructions,
                                                                absl::Span<const int32_t> writers);

}  // namespace weir
