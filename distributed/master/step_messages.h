// The requests that carry tensors, and their answers, between TensorFlow's clients and a master.
//
// A fed tensor is copied once, out of the message; a fetched one is sent out of its own buffer. Messages are
// one payload (transport.h), may be hostile and are checked wholly: InvalidArgument says what is wrong.
// Functions without state, safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distributed/transport/frame.h"
#include "graph/types/tensor.h"

namespace tensorflow {
class RunOptions;
}  // namespace tensorflow

namespace weir {

// What a step is made of, as a client names it.
struct StepNames {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
};

// What a client says about one run.
struct StepWishes {
  absl::Duration timeout = absl::InfiniteDuration();
  bool trace = false;
  bool partition_graphs = false;  // what its devices run, as GraphDefs
};
StepWishes WishesOf(const tensorflow::RunOptions& options);

// A request that carries feeds.
struct FedCall {
  std::string session;
  std::vector<Tensor> feeds;
  int64_t request_id = 0;  // 0: none
};

struct RunStepCall : FedCall {
  StepNames names;  // feeds[i] is fed to names.feeds[i]
  StepWishes wishes;
  std::string partial_run;  // empty: an ordinary step
  bool wants_errors_in_body = false;
};

struct RunCallableCall : FedCall {
  int64_t callable = 0;
};

// Asked before the first feed is made, with 0, and before each with what it takes: a few bytes of a message
// may stand for 2 GiB. Its error ends the reading.
using AdmitFeeds = absl::FunctionRef<absl::Status(absl::string_view session, int64_t num_bytes)>;
absl::StatusOr<RunStepCall> ParseRunStep(absl::string_view message, AdmitFeeds admit);
absl::StatusOr<RunCallableCall> ParseRunCallable(absl::string_view message, AdmitFeeds admit);

// `metadata`: a serialized RunMetadata; empty: none. InvalidArgument for a tensor that no message can hold,
// ResourceExhausted for tensors above 2 GiB together.
absl::StatusOr<Frame> RunStepResponse(absl::Span<const std::string> names, absl::Span<const Tensor> tensors,
                                      absl::string_view metadata);
// The text of the error as UTF-8, which clients insist on.
Frame RunStepErrorResponse(const absl::Status& error);
absl::StatusOr<Frame> RunCallableResponse(absl::Span<const Tensor> tensors, absl::string_view metadata);

// A serialized RunMetadata that has these serialized GraphDefs as its partition_graphs.
std::string PartitionGraphsMetadata(absl::Span<const std::string> graph_defs);

}  // namespace weir
