// The loops of TensorFlow's v1 control flow: which loop every node of a graph runs in.
//
// A loop is what Enter nodes of one frame_name lead into and Exit nodes lead out of. Its nodes run once in
// every iteration; a NextIteration hands a value to a Merge of the next one. Enter runs outside of the loop
// that it leads into, Exit and NextIteration run inside. (Format: Yu et al., "Dynamic Control Flow in
// Large-Scale Machine Learning", EuroSys 2018, section 4.)
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace weir {

// For Loops::runs_in, gives_to and Loop::parent: outside of all loops.
inline constexpr int kNoLoop = -1;

inline constexpr int kMaxLoopDepth = 1000;

struct Loop {
  std::string name;  // attr frame_name of its Enter nodes
  int parent = kNoLoop;
};

struct Loops {
  std::vector<Loop> loops;  // a parent comes before its children
  // By node id: the loop in whose iterations the node runs, and that whose nodes may read its outputs (of an
  // Enter the inner one, of an Exit the outer one).
  std::vector<int> runs_in;
  std::vector<int> gives_to;
};

// InvalidArgument, naming the nodes, for what could never run to its end: a node with inputs from different
// loops, an Exit or NextIteration outside of loops, a NextIteration that leads to anything but a Merge of its
// own loop, an Enter that is not constant and leads to anything but a Merge; a cycle that does not go through
// NextIteration; loops in loops more than kMaxLoopDepth deep.
absl::StatusOr<Loops> FindLoops(const Graph& graph);

// InvalidArgument, naming the loop, when what the _Retval `fetch` gives is made in its iterations.
absl::Status CheckFetch(const Loops& loops, const Node& fetch);

// True for the ops that decide which nodes run, and how often: Switch, Merge, Enter, Exit, NextIteration.
bool IsControlFlow(const Node& node);
bool HasControlFlow(const Graph& graph);

}  // namespace weir
