#include "graph/drawing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "graph/layered_layout.h"
#include "graph/types/printable_text.h"

namespace weir {
namespace {

// Light enough for black text.
constexpr const char* kColours[] = {"#cfe2f3", "#fce5cd", "#d9ead3", "#f4cccc", "#d9d2e9",
                                    "#fff2cc", "#d0e0e3", "#ead1dc", "#e2e2e2", "#c9daf8"};

const char* ColourOf(const std::vector<std::string>& groups, const std::string& group) {
  const auto found = std::find(groups.begin(), groups.end(), group);
  return kColours[(found - groups.begin()) % (sizeof(kColours) / sizeof(kColours[0]))];
}

// The text of a quoted string.
std::string DotText(absl::string_view text) {
  return absl::StrReplaceAll(PrintableText(text), {{"\\", "\\\\"}, {"\"", "\\\""}});
}

std::string DotString(absl::string_view text) { return absl::StrCat("\"", DotText(text), "\""); }

// The name and, on a line of its own, the label.
std::string DotLabel(absl::string_view name, absl::string_view label) {
  return absl::StrCat("\"", DotText(name), label.empty() ? "" : "\\n", DotText(label), "\"");
}

// "a/b/c" cut to its first `depth` parts.
absl::string_view ScopeOf(absl::string_view name, int depth) {
  size_t end = 0;
  for (int i = 0; i < depth; ++i) {
    end = name.find('/', i == 0 ? 0 : end + 1);
    if (end == absl::string_view::npos) return name;
  }
  return name.substr(0, end);
}

int DepthOf(absl::string_view name) {
  return 1 + static_cast<int>(std::count(name.begin(), name.end(), '/'));
}

}  // namespace

std::string XmlText(absl::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      absl::StrAppendFormat(&result, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result;
}

int Drawing::IndexOf(absl::string_view name) {
  const auto [entry, is_new] = by_name_.try_emplace(std::string(name), num_nodes());
  if (is_new) nodes_.push_back({std::string(name), "", ""});
  return entry->second;
}

void Drawing::AddNode(absl::string_view name, absl::string_view label, absl::string_view group) {
  Node& node = nodes_[IndexOf(name)];
  node.label = std::string(label);
  node.group = std::string(group);
}

void Drawing::AddEdge(absl::string_view from, absl::string_view to, absl::string_view label,
                      bool is_control) {
  const int from_index = IndexOf(from), to_index = IndexOf(to);
  const auto [entry, is_new] =
      by_ends_.try_emplace(absl::StrCat(from_index, ">", to_index, is_control ? "^" : ""), edges_.size());
  if (is_new) {
    edges_.push_back({from_index, to_index, std::string(label), is_control, 1});
  } else {
    edges_[entry->second].label = absl::StrCat(++edges_[entry->second].count, " edges");
  }
}

std::vector<std::string> Drawing::Groups() const {
  std::set<std::string> groups;
  for (const Node& node : nodes_) groups.insert(node.group);
  return std::vector<std::string>(groups.begin(), groups.end());
}

Drawing Drawing::Collapsed(int depth) const {
  Drawing result(title_);
  // Of each node: the name of its box. Boxes of several groups have the group in their name.
  std::vector<std::string> box_of(nodes_.size());
  absl::flat_hash_map<std::string, int> count;
  absl::flat_hash_map<std::string, std::string> group_of_scope;
  for (const Node& node : nodes_) {
    const std::string scope(ScopeOf(node.name, depth));
    const auto [entry, is_new] = group_of_scope.try_emplace(scope, node.group);
    std::string& box = box_of[&node - nodes_.data()];
    box = entry->second == node.group ? scope : absl::StrCat(scope, " @ ", node.group);
    ++count[box];
  }
  for (const Node& node : nodes_) {
    const std::string& box = box_of[&node - nodes_.data()];
    result.AddNode(box, count[box] == 1 ? node.label : absl::StrCat(count[box], " nodes"), node.group);
  }
  for (const Edge& edge : edges_) {
    if (box_of[edge.from] != box_of[edge.to]) {
      result.AddEdge(box_of[edge.from], box_of[edge.to], edge.label, edge.is_control);
    }
  }
  return result;
}

Drawing Drawing::Simplified(int max_boxes) const {
  if (num_nodes() <= max_boxes) return *this;
  // A name of a million slashes does not make this slow.
  constexpr int kMaxDepth = 32;
  int deepest = 1;
  for (const Node& node : nodes_) deepest = std::max(deepest, std::min(DepthOf(node.name), kMaxDepth));
  // The number of boxes grows with the depth.
  int depth = 1;
  while (depth + 1 < deepest && Collapsed(depth + 1).num_nodes() <= max_boxes) ++depth;
  return Collapsed(depth);
}

std::string Drawing::Dot() const {
  const std::vector<std::string> groups = Groups();
  std::string dot = absl::StrCat("digraph ", DotString(title_), " {\n  node [shape=box, style=filled];\n");
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    absl::StrAppend(&dot, "  n", i, " [label=", DotLabel(node.name, node.label),
                    ", fillcolor=", DotString(ColourOf(groups, node.group)),
                    node.group.empty() ? "" : absl::StrCat(", tooltip=", DotString(node.group)), "];\n");
  }
  for (const Edge& edge : edges_) {
    absl::StrAppend(&dot, "  n", edge.from, " -> n", edge.to, " [label=", DotString(edge.label),
                    edge.is_control ? ", style=dashed" : "", "];\n");
  }
  return dot + "}\n";
}

std::string Drawing::Svg() const {
  constexpr double kCharWidth = 6.6, kBoxHeight = 34, kRowHeight = 80, kTop = 34;
  LayeredLayout layout(num_nodes());
  for (const Edge& edge : edges_) layout.AddEdge(edge.from, edge.to);
  std::vector<double> widths;
  for (const Node& node : nodes_) {
    widths.push_back(16 + kCharWidth * std::max<size_t>({node.name.size(), node.label.size(), 4}));
  }
  const LayeredLayout::Result placed = layout.Place(widths, /*gap=*/18);

  const std::vector<std::string> groups = Groups();
  double legend_width = 20;
  std::string legend;
  for (const std::string& group : groups) {
    if (group.empty()) continue;
    absl::StrAppendFormat(&legend,
                          "<rect x=\"%.0f\" y=\"8\" width=\"14\" height=\"14\" fill=\"%s\" stroke=\"#666\"/>",
                          legend_width, ColourOf(groups, group));
    absl::StrAppendFormat(&legend, "<text x=\"%.0f\" y=\"20\">%s</text>\n", legend_width + 20,
                          XmlText(group));
    legend_width += 36 + kCharWidth * group.size();
  }
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"monospace\" "
      "font-size=\"11\">\n<title>%s</title>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" "
      "refY=\"4\" "
      "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0L8,4L0,8z\" "
      "fill=\"#555\"/></marker></defs>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      std::max(placed.width, legend_width) + 20, kTop + kRowHeight * placed.num_layers + 10, XmlText(title_));
  svg += legend;
  const auto top = [&](int node) { return kTop + kRowHeight * placed.layer[node]; };
  for (const Edge& edge : edges_) {
    const bool is_back = placed.layer[edge.to] <= placed.layer[edge.from];
    const double x1 = placed.center[edge.from] + 10, x2 = placed.center[edge.to] + 10;
    const double y1 = top(edge.from) + (is_back ? 0 : kBoxHeight),
                 y2 = top(edge.to) + (is_back ? kBoxHeight : 0);
    const double bend = is_back ? -24 : 24;
    absl::StrAppendFormat(
        &svg,
        "<path d=\"M%.0f,%.0fC%.0f,%.0f %.0f,%.0f %.0f,%.0f\" fill=\"none\" stroke=\"%s\"%s "
        "marker-end=\"url(#arrow)\"><title>%s to %s %s</title></path>\n",
        x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2, is_back ? "#b33" : "#777",
        edge.is_control ? " stroke-dasharray=\"4,3\"" : "", XmlText(nodes_[edge.from].name),
        XmlText(nodes_[edge.to].name), XmlText(edge.label));
  }
  for (int i = 0; i < num_nodes(); ++i) {
    const Node& node = nodes_[i];
    const double x = placed.center[i] + 10;
    absl::StrAppendFormat(
        &svg,
        "<g><title>%s %s %s</title><rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" "
        "rx=\"4\" fill=\"%s\" stroke=\"#666\"/>",
        XmlText(node.name), XmlText(node.label), XmlText(node.group), x - widths[i] / 2, top(i), widths[i],
        kBoxHeight, ColourOf(groups, node.group));
    absl::StrAppendFormat(&svg, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>", x,
                          top(i) + (node.label.empty() ? 21 : 14), XmlText(node.name));
    if (!node.label.empty()) {
      absl::StrAppendFormat(&svg,
                            "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#555\">%s</text>", x,
                            top(i) + 28, XmlText(node.label));
    }
    svg += "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace weir
