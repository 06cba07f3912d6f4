#include "placer/report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/types/human_bytes.h"

namespace weir {
namespace {

struct DeviceLoad {
  int num_nodes = 0;
  int num_variables = 0;
  int64_t num_bytes = 0;
};

int64_t KnownBytes(DType dtype, const PartialShape& shape) {
  if (!shape.is_fully_known()) return 0;
  return shape.ToShape().num_elements() * static_cast<int64_t>(DTypeSize(dtype));
}

std::map<std::string, DeviceLoad> LoadByDevice(const Graph& placed) {
  std::map<std::string, DeviceLoad> loads;
  for (const auto& node : placed.nodes()) {
    DeviceLoad& load = loads[node->assigned_device().ToString()];
    ++load.num_nodes;
    if (node->op_name() == "VarHandleOp") {
      ++load.num_variables;
      load.num_bytes += KnownBytes(node->attr<DType>("dtype"), node->attr<PartialShape>("shape"));
    }
  }
  return loads;
}

std::string TextOf(const Graph& placed, const PartitionedGraph& partitioned,
                   const std::vector<std::string>& remarks) {
  std::string report;
  for (const auto& [device, load] : LoadByDevice(placed)) {
    absl::StrAppendFormat(&report, "%-48s %6d nodes %5d variables %10s\n", device, load.num_nodes,
                          load.num_variables, HumanBytes(load.num_bytes));
  }
  for (const std::string& remark : remarks) absl::StrAppend(&report, remark, "\n");
  std::vector<std::pair<int64_t, std::string>> crossings;
  for (const CrossingEdge& edge : partitioned.edges) {
    absl::StatusOr<Output> output = placed.FindOutput(edge.tensor_name);
    const int64_t num_bytes = output.ok() ? KnownBytes(output->dtype(), output->shape()) : 0;
    crossings.emplace_back(
        -num_bytes,
        absl::StrFormat("%s  %s  %s  %s -> %s%s\n", edge.tensor_name,
                        output.ok() ? TypeString(output->dtype(), output->shape()) : "control",
                        HumanBytes(num_bytes), edge.from.ToString(), edge.to.ToString(),
                        edge.loop.empty() ? "" : absl::StrCat("  in every iteration of '", edge.loop, "'")));
  }
  std::stable_sort(crossings.begin(), crossings.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [order, line] : crossings) report += line;
  return report;
}

Drawing DrawingOf(const Graph& placed) {
  Drawing drawing("placement");
  for (const auto& node : placed.nodes()) {
    drawing.AddNode(node->name(), node->op_name(), node->assigned_device().ToString());
  }
  for (const auto& node : placed.nodes()) {
    for (const Output& input : node->inputs()) {
      const bool crosses = input.node->assigned_device() != node->assigned_device();
      drawing.AddEdge(input.node->name(), node->name(),
                      crosses ? absl::StrCat(TypeString(input.dtype(), input.shape()), " ",
                                             HumanBytes(KnownBytes(input.dtype(), input.shape())))
                              : "");
    }
    for (const Node* control : node->control_inputs()) {
      drawing.AddEdge(control->name(), node->name(), "", /*is_control=*/true);
    }
  }
  return drawing;
}

}  // namespace

PlacementReport ReportPlacement(const Graph& placed, const PartitionedGraph& partitioned,
                                const std::vector<std::string>& remarks) {
  return {TextOf(placed, partitioned, remarks), DrawingOf(placed)};
}

}  // namespace weir
