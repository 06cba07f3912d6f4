#include "graph/layered_layout.h"

#include <algorithm>
#include <numeric>

namespace weir {
namespace {

constexpr int kSweeps = 4;

using Edges = std::vector<std::vector<int>>;

Edges Reversed(const Edges& edges) {
  Edges reversed(edges.size());
  for (size_t from = 0; from < edges.size(); ++from) {
    for (const int to : edges[from]) reversed[to].push_back(static_cast<int>(from));
  }
  return reversed;
}

// The longest way to each node of a graph without cycles.
std::vector<int> LongestWays(const Edges& edges) {
  std::vector<int> num_waiting(edges.size()), layer(edges.size()), ready;
  for (const auto& targets : edges) {
    for (const int to : targets) ++num_waiting[to];
  }
  for (size_t node = 0; node < edges.size(); ++node) {
    if (num_waiting[node] == 0) ready.push_back(static_cast<int>(node));
  }
  while (!ready.empty()) {
    const int node = ready.back();
    ready.pop_back();
    for (const int to : edges[node]) {
      layer[to] = std::max(layer[to], layer[node] + 1);
      if (--num_waiting[to] == 0) ready.push_back(to);
    }
  }
  return layer;
}

// Sorts a layer by the mean place of each node's neighbours; a node without any keeps its place.
void OrderByNeighbours(const Edges& neighbours, std::vector<int>* layer, std::vector<double>* place) {
  std::vector<std::pair<double, int>> order;
  for (const int node : *layer) {
    double sum = 0;
    for (const int neighbour : neighbours[node]) sum += (*place)[neighbour];
    order.emplace_back(neighbours[node].empty() ? (*place)[node] : sum / neighbours[node].size(), node);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < order.size(); ++i) {
    (*layer)[i] = order[i].second;
    // From 0 to 1, so that layers of different sizes compare.
    (*place)[order[i].second] = (i + 0.5) / order.size();
  }
}

}  // namespace

void LayeredLayout::AddEdge(int from, int to) {
  if (from != to) targets_[from].push_back(to);
}

std::vector<std::vector<int>> LayeredLayout::WithoutCycles() const {
  enum class Visit { kNone, kOpen, kDone };
  std::vector<Visit> visits(num_nodes(), Visit::kNone);
  std::vector<std::vector<int>> edges(num_nodes());
  // A stack of its own: graphs may be deeper than a thread's.
  std::vector<std::pair<int, size_t>> path;  // node, next of its edges
  for (int root = 0; root < num_nodes(); ++root) {
    if (visits[root] != Visit::kNone) continue;
    visits[root] = Visit::kOpen;
    path.emplace_back(root, 0);
    while (!path.empty()) {
      const int node = path.back().first;
      if (path.back().second == targets_[node].size()) {
        visits[node] = Visit::kDone;
        path.pop_back();
        continue;
      }
      const int to = targets_[node][path.back().second++];
      if (visits[to] == Visit::kOpen) continue;
      edges[node].push_back(to);
      if (visits[to] == Visit::kDone) continue;
      visits[to] = Visit::kOpen;
      path.emplace_back(to, 0);
    }
  }
  return edges;
}

LayeredLayout::Result LayeredLayout::Place(const std::vector<double>& widths, double gap) const {
  Result result;
  const Edges down = WithoutCycles(), up = Reversed(down);
  result.layer = LongestWays(down);
  result.center.resize(num_nodes());
  for (const int layer : result.layer) result.num_layers = std::max(result.num_layers, layer + 1);

  std::vector<std::vector<int>> layers(result.num_layers);
  std::vector<double> place(num_nodes());
  for (int node = 0; node < num_nodes(); ++node) {
    place[node] = static_cast<double>(node) / num_nodes();
    layers[result.layer[node]].push_back(node);
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (auto& layer : layers) OrderByNeighbours(up, &layer, &place);
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
      OrderByNeighbours(down, &*layer, &place);
  }

  std::vector<double> layer_widths;
  for (const auto& layer : layers) {
    double width = gap * (layer.empty() ? 0 : layer.size() - 1);
    for (const int node : layer) width += widths[node];
    layer_widths.push_back(width);
    result.width = std::max(result.width, width);
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    double left = (result.width - layer_widths[i]) / 2;
    for (const int node : layers[i]) {
      result.center[node] = left + widths[node] / 2;
      left += widths[node] + gap;
    }
  }
  return result;
}

}  // namespace weir
