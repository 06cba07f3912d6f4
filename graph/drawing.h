// Drawings of graphs for people: boxes joined by arrows, as DOT (graphviz.org/doc/info/lang.html) or as SVG.
//
//   Drawing drawing("model.pb");
//   drawing.AddNode("dense/MatMul", "MatMul", "/job:ps/task:0");
//   drawing.AddEdge("x", "dense/MatMul", "float[?,784]");
//   WriteFile("model.svg", drawing.Simplified(kReadableBoxes).Svg());
//
// Any names and labels will do: they are escaped. An edge to a node that was not added draws a node without
// label. Cycles are allowed. Time: about linear in nodes and edges. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace weir {

// What fits on a screen.
inline constexpr int kReadableBoxes = 150;

class Drawing {
 public:
  explicit Drawing(std::string title) : title_(std::move(title)) {}

  // Boxes of one group have one colour; the picture names the groups.
  void AddNode(absl::string_view name, absl::string_view label, absl::string_view group = "");
  // An empty label draws no text; a control edge is dashed.
  void AddEdge(absl::string_view from, absl::string_view to, absl::string_view label = "",
               bool is_control = false);

  int num_nodes() const { return static_cast<int>(nodes_.size()); }

  // The drawing with name scopes of more than `depth` parts drawn as one box each ("dense/kernel/read" is in
  // "dense" when depth is 1), labelled with the number of its nodes. Nodes of different groups never share a
  // box.
  Drawing Collapsed(int depth) const;
  // Collapsed to the greatest depth at which there are at most `max_boxes`, or to depth 1 when there is none.
  Drawing Simplified(int max_boxes) const;

  std::string Dot() const;
  std::string Svg() const;

 private:
  struct Node {
    std::string name;
    std::string label;
    std::string group;
  };
  struct Edge {
    int from;
    int to;
    std::string label;
    bool is_control;
    int count;  // of the edges that this one stands for
  };

  int IndexOf(absl::string_view name);
  std::vector<std::string> Groups() const;

  std::string title_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  absl::flat_hash_map<std::string, int> by_name_;
  absl::flat_hash_map<std::string, int> by_ends_;  // position in edges_
};

// Text for an SVG file, escaped. XML has no control characters at all, so these, and what is not ASCII,
// become "\x1b".
std::string XmlText(absl::string_view text);

}  // namespace weir
