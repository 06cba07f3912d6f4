// The collectives of a graph, which must be the same on all ranks: compared when the group has been formed,
// so that a difference is an error that names it, and neither a wait without end nor a sum of tensors that
// have nothing to do with one another.
//
// Thread safety: pure functions but CompareSchedules, which waits for the other ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/collectives/rank_group.h"
#include "graph/graph.h"
#include "kernels/environment.h"

namespace weir {

// One line for each node of a collective whose key is known, in the order of keys: key, name, what it
// computes, dtype and shape as far as it is known. The sender and the receivers of a broadcast have the same
// line. Groups of devices of one process are its own affair; `device_group` is the key of one whose devices
// are those of all ranks, or 0.
std::vector<std::string> ScheduleOf(const Graph& graph, int64_t device_group = 0);

// Every rank calls it with its own schedule and the same key. InvalidArgument that names the first difference
// and the two ranks; the errors of Communicator::AllGather.
absl::Status CompareSchedules(RankGroup& ranks, Environment& environment, const Communicator::Call& call,
                              const std::vector<std::string>& schedule);

// A collective outside of a step: waits for its end.
absl::StatusOr<Tensor> AwaitCollective(Environment& environment,
                                       absl::FunctionRef<void(Communicator::Done done)> begin);

}  // namespace weir
