// Graphs with functions, written as text, over a few ops: what the import makes of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/interchange/graph_def.h"
#include "graph/op_registry.h"

namespace weir::function_text {

// Const, Placeholder, Identity, Print (with effects), Map (which has a function), v1 control flow and others.
const OpRegistry& SomeOps();

// "T" is float.
inline constexpr char kT[] = "attr { key: 'T' value { type: DT_FLOAT } } ";
// 'x', a float, and 'p', a bool.
inline constexpr char kPlaceholder[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }\n";
inline constexpr char kBoolPlaceholder[] =
    "node { name: 'p' op: 'Placeholder' attr { key: 'dtype' value { type: DT_BOOL } } }\n";

// A node of the graph. `rest`: its attrs, and other fields.
std::string Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest = kT);
// A node of a function.
std::string Body(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest = kT);
// A function of floats with one result. `body`: its nodes; `rest`: other fields.
std::string Function(const std::string& name, const std::vector<std::string>& args, const std::string& result,
                     const std::string& body, const std::string& rest = "");
// The attr that names a function.
std::string Calls(const std::string& attr, const std::string& function);

// Of two functions: h(a, d) = a + d is the gradient of g(a) = a.
std::string WithGradientOfItsOwn();

// The text may have the library in several parts.
absl::StatusOr<std::unique_ptr<Graph>> FromText(const std::string& text, const ImportOptions& options = {});

// The inputs of the node of that name as a NodeDef has them: "x:0", "^x".
std::vector<std::string> Inputs(const Graph& graph, const std::string& name);

}  // namespace weir::function_text
