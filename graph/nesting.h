// In how many conditionals and loops of TensorFlow's v1 control flow a node is, by the nodes that lead to it.
//
// A node in none of them runs in every step that needs it. A Switch begins a conditional, and a Merge ends
// it. An iteration of a loop is one more conditional: its Switch begins it, and Exit leaves both. Nodes are
// looked at in an order in which each follows what leads to it; edges from NextIteration to Merge do not
// count for that order. In graphs where what begins is not ended, the numbers are too high, or below 0.
//
// Thread safety: none.
#pragma once

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace weir {

class Nesting {
 public:
  // Of a node before what leads to it is known: in none.
  Nesting() = default;

  // The node follows one of that op: for each of its inputs and control inputs.
  void Follow(absl::string_view op, const Nesting& producer) {
    follows_loop_ = follows_loop_ || absl::EndsWith(op, "Enter") || absl::EndsWith(op, "NextIteration");
    conditionals_ = std::max(conditionals_, producer.conditionals_);
    loops_ = std::max(loops_, producer.loops_);
  }

  // Then once with the node's own op; those on references ("RefSwitch") count as the others.
  void Apply(absl::string_view op) {
    if (absl::EndsWith(op, "Switch")) ++conditionals_;
    if (absl::EndsWith(op, "Enter")) ++loops_;
    if (absl::EndsWith(op, "Exit")) --loops_;
    if (absl::EndsWith(op, "Exit") || (absl::EndsWith(op, "Merge") && !follows_loop_)) --conditionals_;
  }

  bool IsInNone() const { return conditionals_ <= 0 && loops_ <= 0; }

 private:
  int conditionals_ = 0;
  int loops_ = 0;
  bool follows_loop_ = false;  // a Merge that does is that of a loop
};

}  // namespace weir
