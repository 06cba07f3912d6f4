// Which feeds each fetch of a partial run depends on. What a loop gives depends on all that enters the loop,
// because an iteration ends as a whole (session/executor/dataflow_executor.h).
//
// A value; read by many threads at once. Size: that of the step's graph.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace weir {

class FeedDependencies {
 public:
  FeedDependencies() = default;
  // `pruned`: of PruneToSignature.
  FeedDependencies(const Graph& pruned, int num_feeds, int num_fetches);

  // Whether a fetch or a target depends on the feed.
  bool IsNeeded(int feed) const { return is_needed_[feed]; }

  // A feed on which the fetch depends and that has not come; kNone when all have. `is_complete` remembers, by
  // node, where nothing is missing. It is empty at first; the caller keeps it and clears it when a feed is
  // taken back. So all calls of a step together look at every edge once, and again only for a fetch that came
  // too early.
  static constexpr int kNone = -1;
  int FindMissing(int fetch, const std::vector<bool>& has_come, std::vector<bool>* is_complete) const;

 private:
  std::vector<int32_t> first_input_;  // by node, into inputs_; one more at the end
  std::vector<int32_t> inputs_;       // nodes, by data and control edges
  std::vector<int32_t> feed_of_;      // by node; kNone
  std::vector<int32_t> fetched_;      // by fetch: its node
  std::vector<bool> is_needed_;
};

}  // namespace weir
