// What is the buffer of a reference variable in TensorFlow, and not a copy of it (references.h).
//
// A node that takes a reference for its value gets the variable's buffer, and some ops pass on what they are
// given. Whoever looks at such an output after an update sees what that has written. In a graph here a read
// stands for the reference (ReadsReference), and what it gives does not change.
//
// Pure functions.
#pragma once

#include "absl/strings/string_view.h"
#include "graph/node.h"
#include "graph/types/device_name.h"

namespace weir {

// An attr of the reads that stand for references: a program's own reads are copies in TensorFlow, too.
inline constexpr char kReadsReferenceAttr[] = "_reads_reference";

// What a node makes of the buffer of its first input.
enum class Passage {
  kNone,    // something else
  kSame,    // its output
  kShaped,  // its output, with another shape of as many elements
  kSwitch,  // that of its outputs which is alive
  kEnter,   // its output in every iteration of a loop, if it is constant there
  kTyped,   // its output, if that has the same type
};

Passage PassageOf(absl::string_view op);
// Never kEnter, which matters only to consumers in the loop, nor kTyped.
Passage PassageOf(const Node& node);

// Programs may give their own nodes any attr.
bool ReadsReference(const Node& node);

struct ReferenceBuffer {
  Node* read = nullptr;    // the node that reads the variable; null: the output is no variable's buffer
  bool is_shaped = false;  // the output may have another shape than the variable
};

// `output` must not be in a loop. Not followed are switches: what is alive behind them is not known before
// the step, and nodes that may not be on the variable's device, to which it is sent.
ReferenceBuffer BufferOf(Output output);

// Whether two nodes that ask for these devices may be on the same one.
bool MayBeTogether(const DeviceName& a, const DeviceName& b);

}  // namespace weir
