#include "tests/random_graphs/interpreter.h"

#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "tests/conformance/suite.h"

namespace weir::random_graphs {
namespace {

using Path = std::vector<int64_t>;  // the numbers of the iterations around a node
using reference::Value;

constexpr int64_t kMaxIterations = 1000;

// Null for an op without one.
const reference::Reference* FindReference(absl::string_view op) {
  const conformance::OpRecord* record = conformance::Suite::Whole().Find(op);
  return record != nullptr && record->reference() != nullptr ? &record->reference() : nullptr;
}

// Give one of their inputs' numbers, or none: no kernel may be off.
bool IsExact(const std::string& op) {
  // clang-format off
  static const auto* const exact = new std::set<std::string, std::less<>>{
      "Const", "Identity", "IdentityN", "StopGradient", "PlaceholderWithDefault", "CheckNumerics",
      "Reshape", "ExpandDims", "Squeeze", "Fill", "ZerosLike", "OnesLike",
      "ConcatV2", "Split", "Pack", "Unpack", "Slice", "StridedSlice", "StridedSliceGrad", "Transpose", "Tile", "BroadcastTo",
      "ReverseV2", "ReverseSequence", "SpaceToBatchND", "BatchToSpaceND", "SpaceToDepth", "DepthToSpace", "Pad", "PadV2", "MirrorPad",
      "GatherV2", "GatherNd", "Select", "SelectV2", "Where", "OneHot", "TensorScatterUpdate", "TensorScatterMax", "TensorScatterMin",
      "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "ListDiff", "TopK", "TopKV2", "InTopKV2",
      "DynamicPartition", "DynamicStitch", "ParallelDynamicStitch",
      "Diag", "DiagPart", "MatrixBandPart", "MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", "MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3",
      "MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3",
      "ResourceGather", "ResourceGatherNd", "ResourceScatterUpdate", "ResourceScatterNdUpdate", "ResourceScatterMin", "ResourceScatterMax", "ResourceScatterNdMin", "ResourceScatterNdMax", "Cast", "Neg", "Abs", "Sign", "Floor", "Ceil", "Rint", "Round", "Relu", "ReluGrad", "Relu6", "Relu6Grad", "ClipByValue", "Maximum", "Minimum", "Max", "Min",
      "SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin", "MaxPool", "MaxPoolGradGrad"};
  // clang-format on
  return exact->count(op) > 0;
}

// Are rounded once, element by element: IEEE 754 says by how much they may be off.
bool IsRoundedOnce(const std::string& op) {
  static const auto* const rounded =
      new std::set<std::string, std::less<>>{"Add",     "AddV2",    "Sub",  "Mul",    "MulNoNan",   "Div",
                                             "RealDiv", "DivNoNan", "Sqrt", "Square", "Reciprocal", "Inv"};
  return rounded->count(op) > 0;
}

bool IsNumber(DType dtype) { return dtype != DType::kResource && dtype != DType::kString; }

std::pair<double, double> IntegerRange(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return {-128, 127};
    case DType::kUint8:
      return {0, 255};
    case DType::kInt16:
      return {-32768, 32767};
    case DType::kUint16:
      return {0, 65535};
    case DType::kInt32:
      return {-2147483648.0, 2147483647.0};
    case DType::kUint32:
      return {0, 4294967295.0};
    case DType::kBool:
      return {0, 1};
    case DType::kUint64:
      return {0, 9007199254740992.0};
    default:  // beyond, doubles are not exact
      return {-9007199254740992.0, 9007199254740992.0};
  }
}

class StepInterpreter {
 public:
  StepInterpreter(const Interpreter::Feeds& feeds, Variables* variables, const InterpreterOptions& options)
      : feeds_(feeds), variables_(*variables), options_(options) {
    for (const auto& [output, value] : feeds) {
      if (output.node->op_name() == "Placeholder") fed_placeholders_.insert(output.node);
    }
  }

  absl::Status Run(absl::Span<const Output> fetches, absl::Span<Node* const> targets) {
    for (const Output& fetch : fetches) WEIR_RETURN_IF_ERROR(Evaluate(*fetch.node, {}).status());
    for (const Node* target : targets) WEIR_RETURN_IF_ERROR(Evaluate(*target, {}).status());
    return absl::OkStatus();
  }

  Trace TakeTrace() { return std::move(trace_); }

 private:
  // One input: its value, or null when it is dead.
  struct Input {
    const Array* value = nullptr;
    bool is_undefined = false;
  };

  absl::StatusOr<Input> Read(const Output& source, const Path& path) {
    if (path.empty()) {
      if (auto fed = feeds_.find(source); fed != feeds_.end()) return Input{&fed->second, false};
    }
    WEIR_ASSIGN_OR_RETURN(const NodeValues* values, Evaluate(*source.node, path));
    const std::optional<Array>& output = values->outputs[source.index];
    return Input{output ? &*output : nullptr, values->is_undefined};
  }

  absl::StatusOr<const NodeValues*> Evaluate(const Node& node, const Path& path) {
    const auto key = std::make_pair(node.id(), path);
    if (auto found = trace_.find(key); found != trace_.end()) return &found->second;
    if (!in_progress_.insert(key).second)
      return absl::InvalidArgumentError(absl::StrCat("a cycle goes through ", node.Describe()));
    NodeValues values;
    values.outputs.resize(node.num_outputs());
    WEIR_RETURN_IF_ERROR(Compute(node, path, &values));
    in_progress_.erase(key);
    return &trace_.emplace(key, std::move(values)).first->second;
  }

  // Whether a control input has not run.
  absl::StatusOr<bool> WaitForControl(const Node& node, const Path& path) {
    bool is_dead = false;
    for (const Node* before : node.control_inputs()) {
      if (fed_placeholders_.count(before) > 0) continue;
      WEIR_ASSIGN_OR_RETURN(const NodeValues* values, Evaluate(*before, path));
      is_dead = is_dead || values->is_dead;
    }
    return is_dead;
  }

  absl::Status Compute(const Node& node, const Path& path, NodeValues* values) {
    const std::string& op = node.op_name();
    if (op == "Enter") return ComputeEnter(node, path, values);
    WEIR_ASSIGN_OR_RETURN(const bool is_dead, WaitForControl(node, path));
    if (is_dead && op != "ControlTrigger") {
      values->is_dead = true;
      return absl::OkStatus();
    }
    if (op == "Merge") return ComputeMerge(node, path, values);
    if (op == "Exit") return ComputeExit(node, path, values);
    std::vector<Input> inputs;
    for (const Output& source : node.inputs()) {
      WEIR_ASSIGN_OR_RETURN(const Input input, Read(source, path));
      values->is_dead = values->is_dead || input.value == nullptr;
      values->is_undefined = values->is_undefined || input.is_undefined;
      inputs.push_back(input);
    }
    if (values->is_dead) return absl::OkStatus();
    if (op == "Switch") {
      values->outputs[(*inputs[1].value)[0].is_zero() ? 0 : 1] = *inputs[0].value;
      return absl::OkStatus();
    }
    if (op == "NextIteration" || op == "LoopCond") {
      values->outputs[0] = *inputs[0].value;
      return absl::OkStatus();
    }
    std::vector<Array> arrays;
    for (const Input& input : inputs) arrays.push_back(*input.value);
    return ComputeOp(node, path, std::move(arrays), values);
  }

  absl::Status ComputeEnter(const Node& node, const Path& path, NodeValues* values) {
    if (path.empty()) return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " is read outside"));
    const Path outer(path.begin(), path.end() - 1);
    WEIR_ASSIGN_OR_RETURN(const bool is_dead, WaitForControl(node, outer));
    WEIR_ASSIGN_OR_RETURN(const Input input, Read(node.input(0), outer));
    const bool comes = node.attr<bool>("is_constant") || path.back() == 0;
    values->is_dead = is_dead || input.value == nullptr || !comes;
    values->is_undefined = input.is_undefined;
    if (!values->is_dead) values->outputs[0] = *input.value;
    return absl::OkStatus();
  }

  absl::Status ComputeMerge(const Node& node, const Path& path, NodeValues* values) {
    values->is_dead = true;
    for (int i = 0; i < node.num_inputs(); ++i) {
      Path at = path;
      const bool is_next = node.input(i).node->op_name() == "NextIteration";
      if (is_next && (path.empty() || path.back() == 0)) continue;
      if (is_next) --at.back();
      WEIR_ASSIGN_OR_RETURN(const Input input, Read(node.input(i), at));
      if (input.value == nullptr) continue;
      if (!values->is_dead)
        return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " has two inputs at once"));
      values->is_dead = false;
      values->is_undefined = input.is_undefined;
      values->outputs[0] = *input.value;
      values->outputs[1] = Array({}, Value(double(i)));
    }
    return absl::OkStatus();
  }

  // The value of the iteration in which the loop's condition is false.
  absl::Status ComputeExit(const Node& node, const Path& path, NodeValues* values) {
    const Node& leaves = *node.input(0).node;
    if (leaves.op_name() != "Switch")
      return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " does not follow a Switch"));
    Path at = path;
    at.push_back(0);
    for (; at.back() < kMaxIterations; ++at.back()) {
      WEIR_ASSIGN_OR_RETURN(const Input goes_on, Read(leaves.input(1), at));
      if (goes_on.value == nullptr) {  // the loop is in a branch that is not taken
        values->is_dead = true;
        return absl::OkStatus();
      }
      WEIR_ASSIGN_OR_RETURN(const Input input, Read(node.input(0), at));
      if (input.value == nullptr) continue;
      values->outputs[0] = *input.value;
      values->is_undefined = input.is_undefined || goes_on.is_undefined;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("the loop of ", node.Describe(), " does not end"));
  }

  absl::Status ComputeOp(const Node& node, const Path& path, std::vector<Array> inputs, NodeValues* values) {
    std::vector<Array> outputs;
    if (!ComputeState(node, inputs, &outputs, values)) {
      if (node.op_name() == "Placeholder") {
        auto fed = feeds_.find({const_cast<Node*>(&node), 0});
        if (fed == feeds_.end())
          return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " is not fed"));
        values->outputs[0] = fed->second;
        return absl::OkStatus();
      }
      if (!IsExact(node.op_name()) && !IsRoundedOnce(node.op_name())) {
        for (size_t i = 0; i < inputs.size(); ++i) Move(node.input_type(static_cast<int>(i)), 1, &inputs[i]);
      }
      const std::vector<VariableValue*> used = VariablesOf(node, values, &inputs);
      WEIR_ASSIGN_OR_RETURN(outputs, EvaluateReference(node, std::move(inputs)));
      Update(node, used, outputs, values);
      const double ulps = IsExact(node.op_name()) ? 0 : IsRoundedOnce(node.op_name()) ? 0.6 : 2;
      for (int i = 0; i < node.num_outputs(); ++i) Move(node.output_type(i), ulps, &outputs[i]);
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      values->outputs[i] =
          Represented(outputs[i], node.output_type(i), options_.rounds, &values->is_undefined);
    }
    CompareWithBase(node, path, values);
    return absl::OkStatus();
  }

  // Moves floating elements by up to `ulps` times the distance of neighbours.
  void Move(DType dtype, double ulps, Array* array) {
    if (options_.noise == nullptr || !IsFloating(dtype) || ulps == 0) return;
    for (int64_t i = 0; i < array->size(); ++i) {
      (*array)[i].number *= 1 + options_.noise->Real(-ulps, ulps) * Epsilon(dtype);
    }
  }

  void CompareWithBase(const Node& node, const Path& path, NodeValues* values) {
    if (options_.base == nullptr) return;
    auto found = options_.base->find({node.id(), path});
    if (found == options_.base->end()) return;
    const NodeValues& base = found->second;
    values->is_undefined = values->is_undefined || base.is_undefined;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (!base.outputs[i] || !values->outputs[i]) continue;
      const Array &wanted = *base.outputs[i], &found_array = *values->outputs[i];
      bool is_same = wanted.dims() == found_array.dims();
      if (is_same && !IsFloating(node.output_type(i)) && IsNumber(node.output_type(i))) {
        for (int64_t k = 0; k < wanted.size(); ++k) {
          is_same = is_same && wanted[k].number == found_array[k].number;
        }
      }
      if (is_same) continue;
      values->outputs[i] = wanted;
      values->is_undefined = true;
    }
  }

  // False when the node has nothing to do with variables.
  bool ComputeState(const Node& node, const std::vector<Array>& inputs, std::vector<Array>* outputs,
                    NodeValues* values) {
    const std::string& op = node.op_name();
    if (op == "NoOp" || op == "ControlTrigger") return true;
    if (op == "VarHandleOp") {
      Value name;
      name.text = node.attr<std::string>("shared_name");
      outputs->push_back(Array({}, name));
      return true;
    }
    if (node.num_inputs() == 0 || node.input_type(0) != DType::kResource) return false;
    const std::string& name = inputs[0][0].text;
    if (op == "VarIsInitializedOp") {
      outputs->push_back(Array({}, Value(variables_.count(name) > 0 ? 1.0 : 0.0)));
    } else if (op == "ReadVariableOp") {
      values->is_undefined = values->is_undefined || variables_[name].is_undefined;
      outputs->push_back(variables_[name].value);
    } else if (op == "Identity") {
      outputs->push_back(inputs[0]);
    } else if (op == "AssignVariableOp" || op == "AssignAddVariableOp" || op == "AssignSubVariableOp") {
      Assign(node, inputs, values, &variables_[name]);
    } else {
      return false;
    }
    return true;
  }

  // The variables whose handles the node reads; their values take the handles' places among the inputs.
  std::vector<VariableValue*> VariablesOf(const Node& node, NodeValues* values, std::vector<Array>* inputs) {
    std::vector<VariableValue*> used;
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (node.input_type(i) != DType::kResource) continue;
      used.push_back(&variables_[(*inputs)[i][0].text]);
      (*inputs)[i] = used.back()->value;
      values->is_undefined = values->is_undefined || used.back()->is_undefined;
    }
    return used;
  }

  // References give the new values of variables behind the node's own outputs.
  void Update(const Node& node, const std::vector<VariableValue*>& used, const std::vector<Array>& outputs,
              NodeValues* values) {
    if (outputs.size() < node.num_outputs() + used.size() || node.num_outputs() > 0) return;  // only reads
    const AttrValue* const type = node.FindAttr("T");
    const DType dtype = type == nullptr ? node.attr<DType>("dtype") : type->get<DType>();
    for (size_t i = 0; i < used.size(); ++i) {
      Array& value = used[i]->value = outputs[i];
      if (!IsExact(node.op_name())) Move(dtype, 2, &value);
      value = Represented(value, dtype, options_.rounds, &values->is_undefined);
    }
    for (VariableValue* variable : used) {
      variable->is_undefined = variable->is_undefined || values->is_undefined;
    }
  }

  void Assign(const Node& node, const std::vector<Array>& inputs, NodeValues* values,
              VariableValue* variable) {
    const std::string& op = node.op_name();
    Array& value = variable->value;
    if (op == "AssignVariableOp") {
      value = inputs[1];
      variable->is_undefined = values->is_undefined;
      return;
    }
    const DType dtype = node.input_type(node.num_inputs() - 1);
    for (int64_t i = 0; i < value.size(); ++i) {
      if (op == "AssignAddVariableOp") value[i].number += inputs[1][i].number;
      if (op == "AssignSubVariableOp") value[i].number -= inputs[1][i].number;
    }
    Move(dtype, 2, &value);
    value = Represented(value, dtype, options_.rounds, &values->is_undefined);
    variable->is_undefined = variable->is_undefined || values->is_undefined;
  }

  const Interpreter::Feeds& feeds_;
  Variables& variables_;
  const InterpreterOptions& options_;
  std::set<const Node*> fed_placeholders_;
  Trace trace_;
  std::set<std::pair<int, Path>> in_progress_;
};

}  // namespace

bool HasReference(absl::string_view op) { return FindReference(op) != nullptr; }

absl::StatusOr<std::vector<Array>> EvaluateReference(const Node& node, std::vector<Array> inputs) {
  const reference::Reference* reference = FindReference(node.op_name());
  if (reference == nullptr) return absl::NotFoundError(absl::StrCat("no reference for ", node.Describe()));
  reference::Call call{node, std::move(inputs), std::vector<Array>(node.num_outputs())};
  (*reference)(call);
  return std::move(call.outputs);
}

double Epsilon(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128:
      return std::numeric_limits<double>::epsilon();
    case DType::kHalf:
      return 1.0 / 1024;
    case DType::kBfloat16:
      return 1.0 / 128;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

Array Represented(const Array& value, DType dtype, bool rounds, bool* is_undefined) {
  if (!IsNumber(dtype)) return value;
  Array result = value;
  const bool is_floating = IsFloating(dtype) || IsComplex(dtype);
  const auto [low, high] = IntegerRange(dtype);
  for (int64_t i = 0; i < result.size(); ++i) {
    if (dtype == DType::kBool) result[i] = result[i].is_zero() ? 0.0 : 1.0;
    const double real = result[i].real();
    if (!is_floating && !(real >= low && real <= high)) {
      result[i] = 0.0;
      *is_undefined = true;
    }
  }
  if (rounds || !is_floating) result = Array::FromTensor(result.ToTensor(dtype));
  for (int64_t i = 0; i < result.size(); ++i) {
    if (!(std::abs(result[i].number) < 1e30)) *is_undefined = true;
  }
  return result;
}

absl::StatusOr<Trace> Interpreter::Step(const Feeds& feeds, absl::Span<const Output> fetches,
                                        absl::Span<Node* const> targets, Variables* variables,
                                        const InterpreterOptions& options) const {
  StepInterpreter step(feeds, variables, options);
  WEIR_RETURN_IF_ERROR(step.Run(fetches, targets));
  return step.TakeTrace();
}

const Array* Interpreter::Find(const Trace& trace, const Output& output) {
  auto found = trace.find({output.node->id(), {}});
  if (found == trace.end() || !found->second.outputs[output.index]) return nullptr;
  return &*found->second.outputs[output.index];
}

}  // namespace weir::random_graphs
