// The options of a pipeline of tf.data that Weir reads, from TensorFlow's message.
//
// A function without state; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct DatasetOptions {
  // Rewrites that are asked for by name. TensorFlow makes some of them also where nobody asks.
  bool noop_elimination = false;
  bool shuffle_and_repeat_fusion = false;
  bool map_parallelization = false;
  bool map_fusion = false;
  bool filter_fusion = false;
  bool map_and_filter_fusion = false;
  bool map_and_batch_fusion = false;
  bool filter_parallelization = false;
  bool inject_prefetch = false;
  // Whether numbers of calls and sizes of buffers may be chosen for the user.
  bool autotune = true;
  // TensorFlow's ExternalStatePolicy, which counts before what a node says: 0 warns, 1 ignores, 2 fails.
  std::optional<int64_t> external_state_policy;

  bool asks_for_rewrites() const {
    return noop_elimination || shuffle_and_repeat_fusion || map_parallelization || map_fusion ||
           filter_fusion || map_and_filter_fusion || map_and_batch_fusion || filter_parallelization ||
           inject_prefetch;
  }
};

// Of serialized messages, one after another: what a later one says counts. InvalidArgument for other bytes.
absl::StatusOr<DatasetOptions> ParseDatasetOptions(absl::string_view serialized);

}  // namespace weir
