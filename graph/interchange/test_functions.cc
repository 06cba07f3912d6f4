#include "graph/interchange/test_functions.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/runtime_ops.h"
#include "graph/shape_inference.h"

namespace weir::function_text {
namespace {

absl::Status AnyShape(ShapeInference&) { return absl::OkStatus(); }

void Register(OpRegistry* ops, const std::string& name, std::vector<std::string> inputs,
              std::vector<std::string> outputs, std::vector<std::string> attrs, bool is_stateful = false) {
  const absl::Status status = ops->Register({.name = name,
                                             .inputs = std::move(inputs),
                                             .outputs = std::move(outputs),
                                             .attrs = std::move(attrs),
                                             .is_stateful = is_stateful,
                                             .infer_shapes = AnyShape,
                                             .gradient = NotDifferentiable});
  ASSERT_TRUE(status.ok()) << status;
}

std::string NodeText(const std::string& field, const std::string& name, const std::string& op,
                     const std::vector<std::string>& inputs, const std::string& rest) {
  std::string text = absl::StrCat(field, " { name: '", name, "' op: '", op, "' ");
  for (const std::string& input : inputs) absl::StrAppend(&text, "input: '", input, "' ");
  return absl::StrCat(text, rest, " }\n");
}

}  // namespace

const OpRegistry& SomeOps() {
  static const OpRegistry* const ops = [] {
    auto* registry = new OpRegistry;
    Register(registry, "Const", {}, {"output: dtype"}, {"value: tensor", "dtype: type"});
    Register(registry, "Placeholder", {}, {"output: dtype"}, {"dtype: type", "shape: shape = ?"});
    Register(registry, "NoOp", {}, {}, {});
    Register(registry, "Identity", {"input: T"}, {"output: T"}, {"T: type"});
    Register(registry, "IdentityN", {"input: T"}, {"output: T"}, {"T: list(type)"});
    Register(registry, "Add", {"x: T", "y: T"}, {"z: T"}, {"T: type"});
    Register(registry, "Print", {"x: T"}, {"z: T"}, {"T: type"}, /*is_stateful=*/true);
    Register(registry, "TopK", {"x: T"}, {"values: T", "indices: int32"}, {"T: type"});
    Register(registry, "Split", {"value: T"}, {"output: num * T"}, {"num: int >= 1", "T: type"});
    Register(registry, "Pack", {"values: N * T"}, {"output: T"}, {"N: int >= 1", "T: type"});
    Register(registry, "Equal", {"x: T", "y: T"}, {"z: bool"}, {"T: type"});
    Register(registry, "LogicalOr", {"x: bool", "y: bool"}, {"z: bool"}, {});
    Register(registry, "Less", {"x: T", "y: T"}, {"z: bool"}, {"T: type"});
    Register(registry, "Switch", {"data: T", "pred: bool"}, {"output_false: T", "output_true: T"},
             {"T: type"});
    Register(registry, "Merge", {"inputs: N * T"}, {"output: T", "value_index: int32"},
             {"T: type", "N: int >= 1"});
    Register(registry, "Enter", {"data: T"}, {"output: T"},
             {"T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"});
    Register(registry, "NextIteration", {"data: T"}, {"output: T"}, {"T: type"});
    Register(registry, "Exit", {"data: T"}, {"output: T"}, {"T: type"});
    Register(registry, "LoopCond", {"input: bool"}, {"output: bool"}, {});
    Register(registry, "Map", {"x: T"}, {"y: T"}, {"T: type", "f: func"});
    EXPECT_TRUE(RegisterRuntimeOps(*registry).ok());
    return registry;
  }();
  return *ops;
}

std::string Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest) {
  return NodeText("node", name, op, inputs, rest);
}

std::string Body(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest) {
  return NodeText("node_def", name, op, inputs, rest);
}

std::string Function(const std::string& name, const std::vector<std::string>& args, const std::string& result,
                     const std::string& body, const std::string& rest) {
  std::string text = absl::StrCat("library { function { signature { name: '", name, "' ");
  for (const std::string& arg : args) {
    absl::StrAppend(&text, "input_arg { name: '", arg, "' type: DT_FLOAT } ");
  }
  absl::StrAppend(&text, "output_arg { name: 'r' type: DT_FLOAT } } ret { key: 'r' value: '", result, "' } ");
  return absl::StrCat(text, body, rest, "} }\n");
}

std::string Calls(const std::string& attr, const std::string& function) {
  return absl::StrCat("attr { key: '", attr, "' value { func { name: '", function, "' } } } ");
}

std::string WithGradientOfItsOwn() {
  return absl::StrCat(Function("g", {"a"}, "b:output:0", Body("b", "Identity", {"a"})),
                      Function("h", {"a", "d"}, "b:z:0", Body("b", "Add", {"a", "d"})),
                      "library { gradient { function_name: 'g' gradient_func: 'h' } }");
}

absl::StatusOr<std::unique_ptr<Graph>> FromText(const std::string& text, const ImportOptions& options) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &def)) << text;
  return GraphFromGraphDefBytes(def.SerializeAsString(), SomeOps(), options);
}

std::vector<std::string> Inputs(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  const weir::Node* const node = graph.FindNode(name);
  EXPECT_NE(node, nullptr) << name;
  if (node == nullptr) return names;
  for (const Output& input : node->inputs()) names.push_back(input.name());
  for (const weir::Node* before : node->control_inputs()) names.push_back("^" + before->name());
  return names;
}

}  // namespace weir::function_text
