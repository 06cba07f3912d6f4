#include "tests/random_graphs/print.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/reference/array.h"

namespace weir::random_graphs {
namespace {

using reference::Array;

std::string PrintDType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "DType::kFloat32";
    case DType::kFloat64:
      return "DType::kFloat64";
    case DType::kBfloat16:
      return "DType::kBfloat16";
    default: {
      std::string name(DTypeName(dtype));
      name[0] = static_cast<char>(std::toupper(name[0]));
      return absl::StrCat("DType::k", name);
    }
  }
}

std::string CppType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kBool:
      return "bool";
    case DType::kHalf:
      return "Half";
    case DType::kBfloat16:
      return "Bfloat16";
    default:
      return absl::StrCat(DTypeName(dtype), "_t");
  }
}

std::string PrintNumber(double number, DType dtype) {
  if (dtype == DType::kBool) return number != 0 ? "true" : "false";
  if (!IsFloating(dtype)) return absl::StrCat(static_cast<int64_t>(number));
  std::string text =
      dtype == DType::kFloat64 ? absl::StrFormat("%.17g", number) : absl::StrFormat("%.9g", number);
  if (dtype == DType::kHalf || dtype == DType::kBfloat16)
    return absl::StrCat(CppType(dtype), "(", text, "f)");
  if (dtype == DType::kFloat32) {
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    text += "f";
  }
  return text;
}

std::string PrintTensor(const Tensor& tensor) {
  const Array array = Array::FromTensor(tensor);
  std::vector<std::string> elements;
  for (int64_t i = 0; i < array.size(); ++i) elements.push_back(PrintNumber(array[i].real(), tensor.dtype()));
  if (tensor.shape().is_scalar())
    return absl::StrCat("Tensor::Scalar<", CppType(tensor.dtype()), ">(", elements[0], ")");
  return absl::StrCat("Tensor::From<", CppType(tensor.dtype()), ">({",
                      absl::StrJoin(tensor.shape().dims(), ", "), "}, {", absl::StrJoin(elements, ", "),
                      "})");
}

std::string PrintShape(const PartialShape& shape) {
  if (!shape.has_rank()) return "PartialShape()";
  return absl::StrCat("PartialShape({", absl::StrJoin(shape.dims(), ", "), "})");
}

// Empty for attrs that a call may leave out.
std::string PrintAttr(const AttrValue& value) {
  if (const auto* text = value.get_if<std::string>()) return absl::StrCat("\"", *text, "\"");
  if (const auto* number = value.get_if<int64_t>()) return absl::StrCat("int64_t{", *number, "}");
  if (const auto* number = value.get_if<float>()) return absl::StrCat(*number, "f");
  if (const auto* flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (const auto* dtype = value.get_if<DType>()) return PrintDType(*dtype);
  if (const auto* shape = value.get_if<PartialShape>()) return PrintShape(*shape);
  if (const auto* tensor = value.get_if<Tensor>()) return PrintTensor(*tensor);
  if (const auto* list = value.get_if<std::vector<int64_t>>())
    return absl::StrCat("std::vector<int64_t>{", absl::StrJoin(*list, ", "), "}");
  return "";
}

class Printer {
 public:
  explicit Printer(const GraphCase& graph_case) : case_(graph_case) {}

  std::string Print() {
    const auto order = case_.graph().TopologicalOrder();
    if (!order.ok()) return order.status().ToString();
    for (const Node* node : *order) PrintNode(*node);
    for (const auto& node : case_.graph().nodes()) PrintBackEdges(*node);
    for (const auto& [output, value] : case_.feeds)
      absl::StrAppend(&text_, "// feed ", Name(output), " = ", PrintTensor(value), "\n");
    for (const Output& fetch : case_.fetches) absl::StrAppend(&text_, "// fetch ", Name(fetch), "\n");
    for (const Node* target : case_.targets) absl::StrAppend(&text_, "// target n", target->id(), "\n");
    if (case_.initializer != nullptr)
      absl::StrAppend(&text_, "// before the first step: n", case_.initializer->id(), "\n");
    for (const GradientRequest& gradient : case_.gradients) {
      std::vector<std::string> xs;
      for (const Output& x : gradient.xs) xs.push_back(Name(x));
      absl::StrAppend(&text_, "// AddGradients(g, {", Name(gradient.y), "}, {", absl::StrJoin(xs, ", "), "}",
                      gradient.grad_y ? absl::StrCat(", {", Name(gradient.grad_y), "}") : "", ")\n");
    }
    absl::StrAppend(&text_, "// ", case_.num_steps, " step", case_.num_steps == 1 ? "" : "s", "\n");
    return text_;
  }

 private:
  static std::string Name(const Output& output) {
    return absl::StrCat("n", output.node->id(), "->output(", output.index, ")");
  }

  static bool IsList(const Node& node) {
    return !node.op().inputs().empty() && node.op().inputs()[0].is_list();
  }

  void PrintNode(const Node& node) {
    std::vector<std::string> inputs, control;
    for (const Output& input : node.inputs()) {
      // A loop's Merge begins with the value that it enters with twice; PrintBackEdges closes the loop.
      inputs.push_back(Name(input.node->op_name() == "NextIteration" ? node.input(0) : input));
    }
    std::string arguments = absl::StrJoin(inputs, ", ");
    if (node.op().inputs().size() == 1 && IsList(node)) {
      arguments = absl::StrCat("std::vector<Output>{", arguments, "}");
    } else if (IsList(node)) {  // a list and one more, as ConcatV2
      const std::string last = inputs.back();
      inputs.pop_back();
      arguments = absl::StrCat("std::vector<Output>{", absl::StrJoin(inputs, ", "), "}, ", last);
    }
    absl::StrAppend(&text_, "Node* n", node.id(), " = g.AddNode(\"", node.op_name(), "\", {", arguments, "}");
    std::vector<std::string> attrs;
    for (const auto& [name, value] : node.attrs()) {
      const AttrDef* def = node.op().FindAttr(name);
      if (def != nullptr && def->default_value && *def->default_value == value) continue;
      const std::string printed = PrintAttr(value);
      if (!printed.empty()) attrs.push_back(absl::StrCat("{\"", name, "\", ", printed, "}"));
    }
    if (!attrs.empty()) absl::StrAppend(&text_, ", {", absl::StrJoin(attrs, ", "), "}");
    absl::StrAppend(&text_, ");  // ", node.name(), "\n");
    for (const Node* before : node.control_inputs()) {
      absl::StrAppend(&text_, "g.graph().AddControlInput(n", node.id(), ", n", before->id(), ");\n");
    }
  }

  void PrintBackEdges(const Node& node) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (node.input(i).node->op_name() != "NextIteration") continue;
      absl::StrAppend(&text_, "g.graph().SetInput(n", node.id(), ", ", i, ", ", Name(node.input(i)), ");\n");
    }
  }

  const GraphCase& case_;
  std::string text_;
};

}  // namespace

std::string PrintCase(const GraphCase& graph_case) { return Printer(graph_case).Print(); }

}  // namespace weir::random_graphs
