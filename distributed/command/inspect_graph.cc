#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/name_filter.h"
#include "distributed/command/text_table.h"
#include "graph/drawing.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/proto/meta_graph.pb.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::MetaGraphDef;

absl::Status ReadGraph(const std::string& path, MetaGraphDef* meta) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "weir inspect graph: ", PrintableText(path),
        " is a folder: name a file in it, a GraphDef (.pb, .pbtxt) or MetaGraphDef (.meta). "
        "What a folder has, weir inspect model (an exported model) and weir inspect checkpoint show"));
  }
  WEIR_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(PosixFileSystem(), path));
  const bool is_text = absl::EndsWith(path, ".pbtxt") || absl::EndsWith(path, ".txt");
  if (absl::EndsWith(path, ".meta")) return ParseMessageBytes(content, path, meta);
  if (is_text) return ParseMessageText(content, path, meta->mutable_graph_def());
  return ParseMessageBytes(content, path, meta->mutable_graph_def());
}

// Counts by key, most frequent first.
void PrintCounts(const std::map<std::string, int>& counts, std::ostream& out) {
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [name, count] : counts) sorted.emplace_back(-count, name);
  std::sort(sorted.begin(), sorted.end());
  TextTable table({0});
  for (const auto& [count, name] : sorted) table.AddRow({WithThousands(-count), name});
  table.Print(out);
}

void PrintNodes(const GraphDef& graph, const NameFilter& filter, std::ostream& out) {
  out << "nodes:\n";
  TextTable table;
  for (const auto& node : graph.node()) {
    if (!filter.Matches(node.name())) continue;
    table.AddRow({node.name(), node.op(), node.device(), absl::StrJoin(node.input(), ", ")});
  }
  table.Print(out);
}

void PrintCollections(const MetaGraphDef& meta, std::ostream& out) {
  if (meta.collection_def().empty()) return;
  out << "collections:\n";
  std::map<std::string, size_t> sizes;
  for (const auto& [name, collection] : meta.collection_def()) {
    sizes[name] = collection.node_list().value_size() + collection.bytes_list().value_size() +
                  collection.int64_list().value_size() + collection.float_list().value_size() +
                  collection.any_list().value_size();
  }
  TextTable table({0});
  for (const auto& [name, size] : sizes) table.AddRow({WithThousands(size), name});
  table.Print(out);
}

// The nodes that match and the edges among them.
Drawing Draw(const std::string& path, const GraphDef& graph, const NameFilter& filter) {
  Drawing drawing(path);
  for (const auto& node : graph.node()) {
    if (filter.Matches(node.name())) drawing.AddNode(node.name(), node.op(), node.device());
  }
  for (const auto& node : graph.node()) {
    if (!filter.Matches(node.name())) continue;
    for (absl::string_view input : node.input()) {
      const bool is_control = absl::ConsumePrefix(&input, "^");
      const absl::string_view from = input.substr(0, input.find(':'));
      if (filter.Matches(from)) drawing.AddEdge(from, node.name(), "", is_control);
    }
  }
  return drawing;
}

absl::Status WriteDrawings(const Drawing& whole, const InspectOptions& options, std::ostream& out) {
  if (options.dot.empty() && options.svg.empty()) return absl::OkStatus();
  const Drawing drawing =
      options.depth > 0 ? whole.Collapsed(options.depth) : whole.Simplified(kReadableBoxes);
  if (!options.dot.empty()) {
    WEIR_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), options.dot, drawing.Dot()));
  }
  if (!options.svg.empty()) {
    WEIR_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), options.svg, drawing.Svg()));
  }
  out << "drawn: " << Counted(whole.num_nodes(), "node");
  if (drawing.num_nodes() < whole.num_nodes())
    out << " as " << drawing.num_nodes() << " boxes (--depth shows more)";
  out << " in " << PrintableText(options.dot) << (options.dot.empty() || options.svg.empty() ? "" : " and ")
      << PrintableText(options.svg) << "\n";
  return absl::OkStatus();
}

}  // namespace

void PrintImportVerdict(const GraphDef& graph_def, std::ostream& out) {
  std::vector<SkippedNode> skipped;
  Graph graph(StandardOps());
  const absl::Status status = ImportGraphDef(graph_def, {.skipped = &skipped}, &graph);
  // Of the graph and of the functions that it calls. "OP NODE": graph/interchange says so of an op that
  // nobody knows, also to the nodes that depend on it.
  std::map<std::string, int> unknown;
  for (const auto& [name, node] : graph.left_out()) {
    const auto payload = node.reason.GetPayload("weir/unknown_op");
    const std::string op_and_node = payload ? std::string(*payload) : "";
    if (absl::EndsWith(op_and_node, absl::StrCat(" ", name))) {
      ++unknown[op_and_node.substr(0, op_and_node.find(' '))];
    }
  }
  if (!unknown.empty()) {
    out << "ops that Weir lacks:\n";
    PrintCounts(unknown, out);
  }
  if (!status.ok()) {
    out << "not importable: " << PrintableText(status.message()) << "\n";
  } else if (skipped.empty()) {
    out << "importable: every node fits its op's schema\n";
  } else {
    out << "importable in part: " << Counted(graph.num_nodes(), "node") << ", without " << skipped.size()
        << " that cannot be imported or depend on such, first: " << PrintableText(skipped[0].reason.message())
        << "\n";
  }
}

absl::Status InspectGraph(const std::string& path, const InspectOptions& options, std::ostream& out) {
  MetaGraphDef meta;
  WEIR_RETURN_IF_ERROR(ReadGraph(path, &meta));
  const GraphDef& graph = meta.graph_def();
  std::map<std::string, int> ops, devices;
  for (const auto& node : graph.node()) {
    ++ops[node.op()];
    ++devices[node.device().empty() ? "(no device asked for)" : node.device()];
  }
  out << PrintableText(path) << ": " << Counted(graph.node_size(), "node") << ", "
      << Counted(ops.size(), "op") << ", " << Counted(graph.library().function_size(), "function")
      << ", written by version " << graph.versions().producer() << "\n";
  const NameFilter filter(options.filter);
  if (options.nodes) PrintNodes(graph, filter, out);
  out << "ops:\n";
  PrintCounts(ops, out);
  out << "devices:\n";
  PrintCounts(devices, out);
  PrintCollections(meta, out);
  if (meta.has_saver_def())
    out << "saver: restores with '" << PrintableText(meta.saver_def().restore_op_name()) << "'\n";
  PrintImportVerdict(graph, out);
  return WriteDrawings(Draw(path, graph, filter), options, out);
}

}  // namespace weir
