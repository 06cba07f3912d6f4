#include "session/received_edges.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weir {

ReceivedEdges::ReceivedEdges(std::vector<int> edges) : edges_(std::move(edges)) {
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
}

ReceivedEdges ReceivedEdges::First(int count) {
  std::vector<int> edges(count);
  std::iota(edges.begin(), edges.end(), 0);
  return ReceivedEdges(std::move(edges));
}

int ReceivedEdges::Search(int edge) const {
  const auto found = std::lower_bound(edges_.begin(), edges_.end(), edge);
  return found != edges_.end() && *found == edge ? static_cast<int>(found - edges_.begin()) : kNone;
}

}  // namespace weir
