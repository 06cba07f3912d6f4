// What `weir inspect` prints about each kind of file.
//
// Each function prints what it can read to `out` as it goes, and returns the first thing that is wrong:
// NotFound (and other errors of the file system), or DataLoss, InvalidArgument or Unimplemented for bad
// content.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace weir {

struct InspectOptions {
  bool verify = true;  // checkpoint: read every tensor and compare its checksum
  int values = 0;      // checkpoint: how many elements of each tensor to show
  bool nodes = false;  // graph: list every node
  int records = 3;     // record: how many to show
  int steps = 0;       // events: how many of the last steps to show for each tag
};

// PATH: a checkpoint's prefix, its .index file, or a folder with a `checkpoint` file (then the newest one).
absl::Status InspectCheckpoint(const std::string& path, const InspectOptions& options, std::ostream& out);

// PATH: a GraphDef (.pb; text as .pbtxt) or MetaGraphDef (.meta).
absl::Status InspectGraph(const std::string& path, const InspectOptions& options, std::ostream& out);

// PATH: an event file, or a folder with such files.
absl::Status InspectEvents(const std::string& path, const InspectOptions& options, std::ostream& out);

// PATH: a TFRecord file, plain or compressed.
absl::Status InspectRecords(const std::string& path, const InspectOptions& options, std::ostream& out);

}  // namespace weir
