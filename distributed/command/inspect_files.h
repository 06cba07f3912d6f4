// What `weir inspect` prints about each kind of file.
//
// Each function prints what it can read to `out` as it goes, and returns the first thing that is wrong:
// NotFound (and other errors of the file system), or DataLoss, InvalidArgument or Unimplemented for bad
// content. A drawing replaces the file of its name.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace weir {

struct InspectOptions {
  bool verify = true;  // checkpoint: read every tensor and compare its checksum
  int values = 0;      // checkpoint: how many elements of each tensor to show
  std::string tensor;  // checkpoint: show only this one, with its statistics and values
  std::string filter;  // a NameFilter of tensors, nodes or tags
  bool nodes = false;  // graph: list every node
  std::string dot;     // graph: file for a drawing
  std::string svg;     // graph, events: file for a drawing
  int depth = 0;       // graph: name scopes of so many parts are one box; 0: as many as fit on a screen
  int records = 3;     // record: how many to show
  int steps = 0;       // events: how many of the last steps to show for each tag
  bool plot = false;   // events: draw the curves of scalars
};

// PATH: a checkpoint's prefix, its .index file, or a folder with a `checkpoint` file (then the newest one) or
// with a single checkpoint.
absl::Status InspectCheckpoint(const std::string& path, const InspectOptions& options, std::ostream& out);

// PATH: a GraphDef (.pb; text as .pbtxt) or MetaGraphDef (.meta).
absl::Status InspectGraph(const std::string& path, const InspectOptions& options, std::ostream& out);

// PATH: the folder of a SavedModel. Its variables are shown as a checkpoint's tensors are.
absl::Status InspectModel(const std::string& path, const InspectOptions& options, std::ostream& out);

// Whether Weir could run a graph, and if not, why.
void PrintImportVerdict(const tensorflow::GraphDef& graph, std::ostream& out);

// PATH: an event file, or a folder with such files.
absl::Status InspectEvents(const std::string& path, const InspectOptions& options, std::ostream& out);

// PATH: a TFRecord file, plain or compressed.
absl::Status InspectRecords(const std::string& path, const InspectOptions& options, std::ostream& out);

}  // namespace weir
