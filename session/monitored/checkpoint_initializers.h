// Variables that begin with values of a checkpoint (tf.train.init_from_checkpoint, tf.train.warm_start).
//
// Both replace initializers, so they come after the variables are made and before the session is; the files
// are read when the initializers run, on the device that the builder's scopes and device setter give a node.
// What a Saver restores still wins: a program that goes on does not begin again.
//
// `checkpoint` is the prefix of one, or a folder, whose newest is taken.
// Errors: NotFound (no such checkpoint, tensor or variable), InvalidArgument (a dtype or shape differs,
// naming variable and tensor; a mapping that makes no sense), DataLoss (damaged).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph_builder.h"
#include "kernels/formats/file_system.h"

namespace weir {

// Pairs of what the checkpoint has and what it initialises:
//   {"old/kernel", "dense/kernel"}  a tensor, and a variable (all parts of one that is in parts)
//   {"old/", "new/"}                every variable of a scope, from the tensor of its name in another scope
//   {"/", "new/"}, {"old/", "/"}    the root, without a scope
// As in TensorFlow a tensor may initialise several variables. A scope without variables is an error here.
using AssignmentMap = std::vector<std::pair<std::string, std::string>>;

absl::Status InitFromCheckpoint(GraphBuilder& graph, const std::string& checkpoint,
                                const AssignmentMap& assignments,
                                FileSystem& file_system = PosixFileSystem());

struct WarmStartOptions {
  std::string checkpoint;
  // Which variables: those whose name begins with a match of one of these POSIX extended regular expressions.
  std::vector<std::string> patterns = {".*"};
  // Whether only trainable ones: not optimizer slots, moving averages and counters.
  bool trainable_only = true;
  // Names of variables that the checkpoint knows by another name. One that is not used is an error.
  std::map<std::string, std::string> previous_names;
};

// InvalidArgument also for a pattern that does not parse or matches no variable.
absl::Status WarmStart(GraphBuilder& graph, const WarmStartOptions& options,
                       FileSystem& file_system = PosixFileSystem());

}  // namespace weir
