// What a traced step did: when each node ran, by device.
//
// Values without state of their own. The serialized form is TensorFlow's RunMetadata, which TensorBoard shows
// and tf.profiler reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

struct NodeStats {
  std::string node;                 // "dense/mm"
  std::string op;                   // "MatMul"
  std::vector<std::string> inputs;  // the nodes whose outputs it read
  int64_t begin_nanos = 0;          // since the Unix epoch
  int64_t end_nanos = 0;
  uint32_t thread = 0;  // small numbers, in the order in which threads first ran something
};

struct DeviceStats {
  std::string device;            // "/job:worker/replica:0/task:0/device:CPU:0"
  std::vector<NodeStats> nodes;  // in the order in which they ended; one for each time it ran
};

struct StepStats {
  std::vector<DeviceStats> devices;
};

// A serialized RunMetadata. InvalidArgument when it would be above 2 GiB.
absl::StatusOr<std::string> RunMetadataBytes(const StepStats& stats);

}  // namespace weir
