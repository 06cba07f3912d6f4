#include "tests/conformance/op_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "kernels/fake/fake_device.h"
#include "kernels/fake/fake_kernels.h"
#include "kernels/memory_kind.h"
#include "kernels/null/null_device.h"
#include "kernels/null/register_kernels.h"
#include "kernels/reference/array.h"
#include "ops/register_ops.h"
#include "tests/conformance/case_graph.h"
#include "tests/conformance/comparison.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;

Output AddConst(GraphBuilder& g, const Tensor& value) {
  return g.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}});
}

Output AddPlaceholder(GraphBuilder& g, DType dtype, PartialShape shape) {
  return g.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", std::move(shape)}});
}

// The case's node with placeholders of the inputs' shapes.
absl::StatusOr<Node*> BuildWithPlaceholders(GraphBuilder& g, const OpCase& test) {
  Node* node =
      AddCase(g, test, [&](int, const Tensor& t) { return AddPlaceholder(g, t.dtype(), t.shape()); });
  if (!g.ok()) return g.status();
  return node;
}

std::vector<Tensor> CloneAll(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> clones;
  for (const Tensor& tensor : tensors) clones.push_back(tensor.Clone());
  return clones;
}

std::vector<int32_t> SlotsInOrder(int count) {
  std::vector<int32_t> slots(count);
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

absl::Status CheckShapesOf(Node& node, const std::vector<Tensor>& outputs, absl::string_view how) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output_shape(i).IsCompatibleWith(outputs[i].shape())) continue;
    return absl::InternalError(absl::StrCat("output ", i, " has shape ", outputs[i].shape().ToString(),
                                            ", inferred ", node.output_shape(i).ToString(), " ", how));
  }
  return absl::OkStatus();
}

}  // namespace

OpChecks::OpChecks() {
  cpu_ = {"CPU", MakeCpuDevice("test", 0, 0, threads_), std::make_unique<KernelRegistry>()};
  RegisterCpuKernels(*cpu_.kernels);
  others_.push_back({"fake GPU", MakeFakeDevice("test", 0, 0, threads_, 0, FakeMemory::kProtected),
                     std::make_unique<KernelRegistry>()});
  RegisterFakeKernels(*others_.back().kernels);
  ProtectFakeKernels(*others_.back().kernels, StandardOps());
  null_ = {"null device", MakeNullDevice("test", 0, 0, threads_), std::make_unique<KernelRegistry>()};
  RegisterNullKernels(StandardOps(), *null_.kernels);
}

absl::Status OpChecks::CheckAgainstReference(const OpCase& test) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(Node * node, BuildWithPlaceholders(g, test));
  const std::vector<Tensor> inputs = FlatInputs(test);
  const std::vector<Tensor> before = CloneAll(inputs);
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> found,
                        EvaluateNode(*node, inputs, *cpu_.device, *cpu_.kernels));
  WEIR_RETURN_IF_ERROR(CompareAll("an input, after the kernel ran,", inputs, before, 0));
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted, EvaluateReference(*node, inputs));
  return CompareAll("CPU", found, wanted, test.tolerance > 0 ? test.tolerance : -1);
}

// The outputs of the node when input i is in slot input_slots[i], which nobody reads later unless `kept` is
// one of them.
absl::StatusOr<std::vector<Tensor>> OpChecks::RunInSlots(const Node& node, std::vector<Tensor> slots,
                                                         const std::vector<int32_t>& input_slots,
                                                         int32_t kept) const {
  const int count = node.num_inputs();
  slots.resize(count + node.num_outputs());
  const auto last_use = std::make_unique<bool[]>(count + 1);
  for (int i = 0; i < count; ++i) last_use[i] = input_slots[i] != kept;
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, cpu_.kernels->Create(node, *cpu_.device));
  Cancellation cancellation;
  StepContext step;
  step.cancellation = &cancellation;
  KernelContext context(step, *cpu_.device, slots.data(), input_slots.data(), last_use.get(), count, count,
                        node.output_types().data(), node.num_outputs());
  WEIR_RETURN_IF_ERROR(kernel->Compute(context));
  return std::vector<Tensor>(slots.begin() + count, slots.end());
}

absl::Status OpChecks::CheckInPlace(const OpCase& test) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(Node * node, BuildWithPlaceholders(g, test));
  const std::vector<Tensor> inputs = FlatInputs(test);
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted,
                        EvaluateNode(*node, inputs, *cpu_.device, *cpu_.kernels));
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> found,
                        RunInSlots(*node, CloneAll(inputs), SlotsInOrder(node->num_inputs()), /*kept=*/-1));
  return CompareAll("in place", found, wanted, 0);
}

absl::Status OpChecks::CheckAliased(const OpCase& test) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(Node * node, BuildWithPlaceholders(g, test));
  const std::vector<Tensor> inputs = FlatInputs(test);
  const int count = node->num_inputs();
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      if (inputs[i].dtype() != inputs[j].dtype() || inputs[i].shape() != inputs[j].shape()) continue;
      std::vector<Tensor> equal = inputs;
      equal[j] = equal[i];
      const auto wanted = EvaluateNode(*node, CloneAll(equal), *cpu_.device, *cpu_.kernels);
      if (!wanted.ok()) continue;  // the op refuses equal values
      const std::string which = absl::StrCat("with input ", j, " that is input ", i);
      // In one slot, which no executor gives away; then in two slots with one buffer, each at its last use.
      std::vector<int32_t> slots = SlotsInOrder(count);
      slots[j] = i;
      std::vector<Tensor> tensors = CloneAll(inputs);
      WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> found, RunInSlots(*node, tensors, slots, /*kept=*/i));
      WEIR_RETURN_IF_ERROR(CompareAll(which, found, *wanted, 0));
      tensors = CloneAll(inputs);
      tensors[j] = tensors[i];
      WEIR_ASSIGN_OR_RETURN(found, RunInSlots(*node, std::move(tensors), SlotsInOrder(count), /*kept=*/-1));
      WEIR_RETURN_IF_ERROR(CompareAll(absl::StrCat(which, " by another name"), found, *wanted, 0));
    }
  }
  return absl::OkStatus();
}

absl::Status OpChecks::CheckOtherDevices(const OpCase& test) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(Node * node, BuildWithPlaceholders(g, test));
  const std::vector<Tensor> inputs = FlatInputs(test);
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted,
                        EvaluateNode(*node, inputs, *cpu_.device, *cpu_.kernels));
  for (const DeviceUnderTest& other : others_) {
    const ArgumentKinds kinds = other.kernels->KindsOf(*node, other.device->type());
    std::vector<Tensor> on_device = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (kinds.inputs[i] == MemoryKind::kHost) continue;
      WEIR_ASSIGN_OR_RETURN(on_device[i], other.device->FromHost(inputs[i]));
    }
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> found,
                          EvaluateNode(*node, on_device, *other.device, *other.kernels));
    for (size_t i = 0; i < found.size(); ++i) {
      if (kinds.outputs[i] == MemoryKind::kHost) continue;
      WEIR_ASSIGN_OR_RETURN(found[i], other.device->ToHost(found[i]));
    }
    WEIR_RETURN_IF_ERROR(CompareAll(other.name, found, wanted, -1));
  }
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> nothing,
                        EvaluateNode(*node, inputs, *null_.device, *null_.kernels));
  for (int i = 0; i < node->num_outputs(); ++i) {
    const bool fits =
        nothing[i].dtype() == node->output_type(i) &&
        (!node->output_shape(i).is_fully_known() || node->output_shape(i).ToShape() == nothing[i].shape());
    if (!fits)
      return absl::InternalError(absl::StrCat("null device, output ", i, " is ", nothing[i].ToString(0)));
  }
  return absl::OkStatus();
}

absl::Status OpChecks::CheckShapes(const OpCase& test) const {
  const std::vector<Tensor> inputs = FlatInputs(test);
  GraphBuilder constants(StandardOps());
  Node* node = AddCase(constants, test, [&](int, const Tensor& t) { return AddConst(constants, t); });
  if (node == nullptr) return constants.status();
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                        EvaluateNode(*node, inputs, *cpu_.device, *cpu_.kernels));
  WEIR_RETURN_IF_ERROR(CheckShapesOf(*node, outputs, "from constants"));
  for (int i = 0; i < node->num_outputs(); ++i) {
    if (node->output_shape(i).is_fully_known() || Suite::Whole().Find(test.op)->shape_depends_on_values())
      continue;
    return absl::InternalError(absl::StrCat("output ", i, " has shape ", outputs[i].shape().ToString(),
                                            ", inferred only ", node->output_shape(i).ToString(),
                                            " from constants"));
  }

  const auto check = [&](absl::string_view how,
                         const std::function<PartialShape(int, const Tensor&)>& shape) {
    GraphBuilder g(StandardOps());
    Node* masked =
        AddCase(g, test, [&](int i, const Tensor& t) { return AddPlaceholder(g, t.dtype(), shape(i, t)); });
    if (masked == nullptr) return absl::InternalError(absl::StrCat(g.status().message(), " ", how));
    return CheckShapesOf(*masked, outputs, how);
  };
  const auto whole = [](const Tensor& t) { return PartialShape(t.shape()); };
  WEIR_RETURN_IF_ERROR(check("from shapes", [&](int, const Tensor& t) { return whole(t); }));
  WEIR_RETURN_IF_ERROR(check("from nothing", [&](int, const Tensor&) { return PartialShape(); }));
  WEIR_RETURN_IF_ERROR(
      check("from ranks", [&](int, const Tensor& t) { return PartialShape::OfRank(t.shape().rank()); }));
  for (int masked = 0; masked < static_cast<int>(inputs.size()); ++masked) {
    WEIR_RETURN_IF_ERROR(
        check(absl::StrCat("without the rank of input ", masked),
              [&](int i, const Tensor& t) { return i == masked ? PartialShape() : whole(t); }));
    for (int dim = 0; dim < inputs[masked].shape().rank(); ++dim) {
      WEIR_RETURN_IF_ERROR(
          check(absl::StrCat("without dimension ", dim, " of input ", masked), [&](int i, const Tensor& t) {
            if (i != masked) return whole(t);
            Dims dims(t.shape().dims().begin(), t.shape().dims().end());
            dims[dim] = PartialShape::kUnknownDim;
            return PartialShape::FromDims(dims).value();
          }));
    }
  }
  return absl::OkStatus();
}

namespace {

Tensor ToDouble(const Tensor& tensor) {
  return IsFloating(tensor.dtype()) ? Array::FromTensor(tensor).ToTensor(DType::kFloat64) : tensor;
}

// The case with double in place of other floating types, wherever it says one.
OpCase InDouble(const OpCase& test) {
  OpCase result = test;
  for (CaseInput& input : result.inputs) {
    for (Tensor& tensor : input.tensors) tensor = ToDouble(tensor);
  }
  for (auto& [name, value] : result.attrs) {
    if (const DType* dtype = value.get_if<DType>(); dtype != nullptr && IsFloating(*dtype)) {
      value = DType::kFloat64;
    } else if (const Tensor* tensor = value.get_if<Tensor>()) {
      value = ToDouble(*tensor);
    }
  }
  return result;
}

// A graph with the case's node, its floating outputs weighted, and the gradients of their sum.
struct GradientGraph {
  std::vector<Output> xs;  // floating inputs
  std::vector<Tensor> x_values;
  std::vector<Output> ys;       // floating outputs
  std::vector<Output> weights;  // placeholders
  std::vector<Tensor> weight_values;
  std::vector<Output> gradients;                  // null where none flows
  std::vector<std::pair<Output, Tensor>> others;  // inputs that are not known and not floating

  std::vector<std::pair<Output, Tensor>> Feeds() const {
    std::vector<std::pair<Output, Tensor>> feeds;
    for (size_t i = 0; i < xs.size(); ++i) feeds.emplace_back(xs[i], x_values[i]);
    for (size_t i = 0; i < weights.size(); ++i) feeds.emplace_back(weights[i], weight_values[i]);
    feeds.insert(feeds.end(), others.begin(), others.end());
    return feeds;
  }
};

// Not 1, not the same everywhere, and exact in every floating type.
Tensor Weights(DType dtype, const Shape& shape) {
  Array weights(reference::Index(shape.dims().begin(), shape.dims().end()));
  for (int64_t i = 0; i < weights.size(); ++i) weights[i] = 0.5 + 0.125 * static_cast<double>(i * 7 % 9);
  return weights.ToTensor(dtype);
}

double WeightedSum(const std::vector<Tensor>& ys, const std::vector<Tensor>& weights) {
  double sum = 0;
  for (size_t k = 0; k < ys.size(); ++k) {
    const Array y = Array::FromTensor(ys[k]), w = Array::FromTensor(weights[k]);
    for (int64_t i = 0; i < y.size(); ++i) sum += y[i].real() * w[i].real();
  }
  return sum;
}

// What the graph knows of the inputs when gradients are built.
enum class Knowledge { kShapesAndIntegers, kNothing };

absl::StatusOr<GradientGraph> BuildGradient(GraphBuilder& g, const OpCase& test, const DeviceUnderTest& cpu,
                                            Knowledge knowledge) {
  const bool is_known = knowledge == Knowledge::kShapesAndIntegers;
  GradientGraph result;
  Node* node = AddCase(g, test, [&](int, const Tensor& t) {
    const bool is_x = IsFloating(t.dtype());
    if (!is_x && is_known) return AddConst(g, t);
    const Output input = AddPlaceholder(g, t.dtype(), is_known ? PartialShape(t.shape()) : PartialShape());
    if (is_x) result.xs.push_back(input);
    if (is_x) result.x_values.push_back(t);
    if (!is_x) result.others.emplace_back(input, t);
    return input;
  });
  if (node == nullptr) return g.status();
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                        EvaluateNode(*node, FlatInputs(test), *cpu.device, *cpu.kernels));
  for (int i = 0; i < node->num_outputs(); ++i) {
    const std::vector<int>& chosen = test.gradient_outputs;
    const bool is_chosen = chosen.empty() || std::find(chosen.begin(), chosen.end(), i) != chosen.end();
    if (!is_chosen || !IsFloating(node->output_type(i))) continue;
    result.ys.push_back(node->output(i));
    result.weight_values.push_back(Weights(node->output_type(i), outputs[i].shape()));
    result.weights.push_back(AddPlaceholder(g, node->output_type(i),
                                            is_known ? PartialShape(outputs[i].shape()) : PartialShape()));
  }
  if (result.xs.empty() || result.ys.empty()) return result;
  WEIR_ASSIGN_OR_RETURN(result.gradients, AddGradients(g, result.ys, result.xs, result.weights));
  return result;
}

// The gradients of a case, those that do not flow as zeros.
absl::StatusOr<std::vector<Tensor>> Gradients(const OpCase& test, const DeviceUnderTest& cpu,
                                              Knowledge knowledge) {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(const GradientGraph graph, BuildGradient(g, test, cpu, knowledge));
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < graph.gradients.size(); ++i) {
    if (!graph.gradients[i]) {
      const Tensor& x = graph.x_values[i];
      gradients.push_back(
          Array(reference::Index(x.shape().dims().begin(), x.shape().dims().end())).ToTensor(x.dtype()));
      continue;
    }
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> found,
                          EvaluateGraph({graph.gradients[i]}, graph.Feeds(), *cpu.device, *cpu.kernels));
    gradients.push_back(std::move(found[0]));
  }
  return gradients;
}

}  // namespace

absl::Status OpChecks::CheckGradientOfUnknown(const OpCase& test) const {
  const Op* op = StandardOps().Find(test.op);
  if (op == nullptr) return absl::NotFoundError(absl::StrCat("no op ", test.op));
  if (op->def().gradient == NotDifferentiable) return absl::OkStatus();
  const auto wanted = Gradients(test, cpu_, Knowledge::kShapesAndIntegers);
  if (absl::IsUnimplemented(wanted.status())) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(wanted.status());
  const auto found = Gradients(test, cpu_, Knowledge::kNothing);
  // TensorFlow refuses it, too (ops/gradients_test.cc).
  if (test.op == "Qr" && absl::IsUnimplemented(found.status())) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(found.status());
  return CompareAll("the gradient of inputs of unknown shapes", *found, *wanted, -1);
}

absl::Status OpChecks::CheckGradient(const OpCase& test) const {
  const Op* op = StandardOps().Find(test.op);
  if (op == nullptr) return absl::NotFoundError(absl::StrCat("no op ", test.op));
  if (op->def().gradient == NotDifferentiable || !test.check_gradient) return absl::OkStatus();

  const OpCase exact = InDouble(test);
  {
    GraphBuilder g(StandardOps());
    absl::StatusOr<Node*> node = BuildWithPlaceholders(g, exact);
    if (!node.ok() || !cpu_.kernels->HasKernel(**node, "CPU")) {
      return absl::InternalError(
          absl::StrCat(test.op, " has no kernel in double to check the gradient with"));
    }
  }
  WEIR_RETURN_IF_ERROR(CheckNumericGradient(exact));

  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> found,
                        Gradients(test, cpu_, Knowledge::kShapesAndIntegers));
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted,
                        Gradients(exact, cpu_, Knowledge::kShapesAndIntegers));
  for (size_t i = 0; i < found.size(); ++i) {
    const DType dtype = found[i].dtype();
    const double tolerance = 10 * std::max(test.tolerance, ToleranceOf(dtype));
    WEIR_RETURN_IF_ERROR(Compare(absl::StrCat("the gradient of floating input ", i), found[i],
                                 Array::FromTensor(wanted[i]).ToTensor(dtype), tolerance));
  }
  return absl::OkStatus();
}

// Of a case in double.
absl::Status OpChecks::CheckNumericGradient(const OpCase& exact) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(GradientGraph graph, BuildGradient(g, exact, cpu_, Knowledge::kShapesAndIntegers));
  if (graph.xs.empty() || graph.ys.empty()) return absl::OkStatus();

  std::vector<std::pair<Output, Tensor>> feeds = graph.Feeds();
  const auto value_at = [&](size_t which, const Tensor& x) -> absl::StatusOr<double> {
    feeds[which].second = x;
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> ys,
                          EvaluateGraph(graph.ys, feeds, *cpu_.device, *cpu_.kernels));
    return WeightedSum(ys, graph.weight_values);
  };

  for (size_t which = 0; which < graph.xs.size(); ++which) {
    const Tensor x = graph.x_values[which];
    constexpr double step = 1e-5, tolerance = 1e-6;
    Array analytic(reference::Index(x.shape().dims().begin(), x.shape().dims().end()));
    if (graph.gradients[which]) {
      WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> gradient,
                            EvaluateGraph({graph.gradients[which]}, feeds, *cpu_.device, *cpu_.kernels));
      if (gradient[0].shape() != x.shape() || gradient[0].dtype() != x.dtype()) {
        return absl::InternalError(absl::StrCat("gradient of input ", which, " is ", gradient[0].ToString(0),
                                                ", the input ", x.ToString(0)));
      }
      analytic = Array::FromTensor(gradient[0]);
    }
    const Array values = Array::FromTensor(x);
    const int64_t stride = std::max<int64_t>(1, values.size() / 60);  // big tensors by samples
    for (int64_t i = 0; i < values.size(); i += stride) {
      Array moved = values;
      moved[i] = values[i].real() + step;
      WEIR_ASSIGN_OR_RETURN(const double above, value_at(which, moved.ToTensor(x.dtype())));
      moved[i] = values[i].real() - step;
      WEIR_ASSIGN_OR_RETURN(const double below, value_at(which, moved.ToTensor(x.dtype())));
      const double numeric = (above - below) / (2 * step), found = analytic[i].real();
      if (std::abs(found - numeric) <= tolerance * std::max(1.0, std::abs(numeric))) continue;
      return absl::InternalError(absl::StrCat("gradient of floating input ", which, " at element ", i, " is ",
                                              found, ", small changes say ", numeric));
    }
    feeds[which].second = x;
  }
  return absl::OkStatus();
}

absl::Status OpChecks::CheckSerialized(const OpCase& test) const {
  GraphBuilder g(StandardOps());
  Node* node = AddCase(g, test, [&](int, const Tensor& t) { return AddConst(g, t); });
  if (node == nullptr) return g.status();
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, GraphDefBytes(g.graph()));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> parsed,
                        GraphFromGraphDefBytes(bytes, StandardOps(), {.lets_runtime_ops_in = true}));
  WEIR_ASSIGN_OR_RETURN(Node * copy, parsed->LookupNode(node->name()));
  // Not the attrs, of which some are NaN.
  WEIR_ASSIGN_OR_RETURN(const std::string again, GraphDefBytes(*parsed));
  if (again != bytes) return absl::InternalError("the graph changed on the way");
  std::vector<Output> outputs, copied;
  for (int i = 0; i < node->num_outputs(); ++i) {
    outputs.push_back(node->output(i));
    copied.push_back(copy->output(i));
  }
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted,
                        EvaluateGraph(outputs, {}, *cpu_.device, *cpu_.kernels));
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> found,
                        EvaluateGraph(copied, {}, *cpu_.device, *cpu_.kernels));
  return CompareAll("after parsing", found, wanted, 0);
}

}  // namespace weir::conformance
