#include "tests/conformance/update_checks.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/types/resource_handle.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "kernels/fake/fake_device.h"
#include "kernels/fake/fake_kernels.h"
#include "kernels/reference/array.h"
#include "kernels/variable.h"
#include "ops/register_ops.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;

// What the graph knows of the inputs.
enum class Knowledge { kTypes, kNothing };

absl::StatusOr<Node*> Build(GraphBuilder& g, const OpCase& test, Knowledge knowledge) {
  const bool knows = knowledge == Knowledge::kTypes;
  std::vector<InputArg> args;
  for (const CaseInput& input : test.inputs) {
    const Tensor& value = input.tensors[0];
    const PartialShape shape = knows ? PartialShape(value.shape()) : PartialShape();
    if (input.is_variable && knows) {
      args.push_back(g.AddOp("VarHandleOp", {}, {{"dtype", value.dtype()}, {"shape", shape}}));
    } else {
      const DType dtype = input.is_variable ? DType::kResource : value.dtype();
      args.push_back(g.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}));
    }
  }
  Node* const node = g.AddNode(test.op, std::move(args), test.attrs, "tested");
  if (!g.ok()) return g.status();
  return node;
}

// The variables of one call.
class Variables {
 public:
  // Variables of their own, which alone hold their values.
  explicit Variables(const OpCase& test) {
    for (const CaseInput& input : test.inputs) {
      inputs_.push_back(input.is_variable ? HandleOf(input.tensors[0].Clone()) : input.tensors[0]);
      if (input.is_variable) handles_.push_back(inputs_.back());
    }
  }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  std::vector<Tensor> values() const {
    std::vector<Tensor> values;
    for (const Tensor& handle : handles_) {
      auto* const variable = static_cast<Variable*>(handle.scalar<ResourceHandle>().resource.get());
      absl::MutexLock lock(&variable->mutex);
      values.push_back(variable->tensor);
    }
    return values;
  }

 private:
  std::vector<Tensor> inputs_, handles_;
};

std::vector<const void*> Buffers(const std::vector<Tensor>& tensors) {
  std::vector<const void*> buffers;
  for (const Tensor& tensor : tensors) buffers.push_back(tensor.data());
  return buffers;
}

double ToleranceOf(const OpCase& test, DType dtype) {
  if (test.tolerance > 0) return test.tolerance;
  if (dtype == DType::kHalf) return 2e-3;
  if (dtype == DType::kBfloat16) return 1.6e-2;
  if (dtype == DType::kFloat64 || dtype == DType::kComplex128) return 1e-13;
  return IsFloating(dtype) || IsComplex(dtype) ? 2e-6 : 0;
}

bool IsClose(double found, double wanted, double tolerance) {
  if (std::isnan(found) || std::isnan(wanted)) return std::isnan(found) == std::isnan(wanted);
  if (found == wanted) return true;
  return std::abs(found - wanted) <= tolerance * std::max({1.0, std::abs(found), std::abs(wanted)});
}

absl::Status Compare(const OpCase& test, const std::vector<Tensor>& found,
                     const std::vector<Tensor>& wanted) {
  if (found.size() != wanted.size()) return absl::InternalError("the reference gives other results");
  for (size_t k = 0; k < found.size(); ++k) {
    const auto differs = [&](absl::string_view how) {
      return absl::InternalError(absl::StrCat("result ", k, how, ": found ", found[k].ToString(20),
                                              ", wanted ", wanted[k].ToString(20)));
    };
    if (found[k].dtype() != wanted[k].dtype() || found[k].shape() != wanted[k].shape()) {
      return differs(" is of another type");
    }
    const Array a = Array::FromTensor(found[k]), b = Array::FromTensor(wanted[k]);
    const double tolerance = ToleranceOf(test, found[k].dtype());
    for (int64_t i = 0; i < a.size(); ++i) {
      const bool is_close = a[i].text == b[i].text &&
                            IsClose(a[i].number.real(), b[i].number.real(), tolerance) &&
                            IsClose(a[i].number.imag(), b[i].number.imag(), tolerance);
      if (!is_close) return differs(absl::StrCat(" differs at element ", i));
    }
  }
  return absl::OkStatus();
}

// The results that the reference gives: outputs, then the variables' new values.
absl::StatusOr<std::vector<Tensor>> Wanted(const OpCase& test, const Node& node) {
  const OpRecord* const record = Suite::Whole().Find(test.op);
  if (record == nullptr || record->reference() == nullptr) {
    return absl::NotFoundError(absl::StrCat("no reference for ", test.op));
  }
  std::vector<DType> dtypes(node.output_types().begin(), node.output_types().end());
  reference::Call call{node, {}, {}};
  for (const CaseInput& input : test.inputs) {
    call.inputs.push_back(Array::FromTensor(input.tensors[0]));
    if (input.is_variable) dtypes.push_back(input.tensors[0].dtype());
  }
  record->reference()(call);
  if (call.outputs.size() != dtypes.size()) {
    return absl::InternalError(absl::StrCat("the reference of ", test.op, " gives ", call.outputs.size(),
                                            " results, must give ", dtypes.size()));
  }
  std::vector<Tensor> wanted;
  for (size_t i = 0; i < dtypes.size(); ++i) wanted.push_back(call.outputs[i].ToTensor(dtypes[i]));
  return wanted;
}

}  // namespace

UpdateChecks::UpdateChecks()
    : device_(MakeCpuDevice("test", 0, 0, threads_)), gpu_(MakeFakeDevice("test", 0, 0, threads_)) {
  RegisterCpuKernels(kernels_);
  RegisterFakeKernels(gpu_kernels_);
}

absl::Status UpdateChecks::CheckAgainstReference(const OpCase& test) const {
  return CheckOn(*device_, kernels_, test);
}

absl::Status UpdateChecks::CheckFakeGpu(const OpCase& test) const {
  return CheckOn(*gpu_, gpu_kernels_, test);
}

absl::Status UpdateChecks::CheckOn(Device& device, const KernelRegistry& kernels, const OpCase& test) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(Node* const node, Build(g, test, Knowledge::kNothing));
  const Variables variables(test);
  const std::vector<const void*> before = Buffers(variables.values());
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> found, EvaluateNode(*node, variables.inputs(), device, kernels));
  if (Buffers(variables.values()) != before) {
    return absl::InternalError("a variable that nobody reads has another buffer");
  }
  for (Tensor& value : variables.values()) found.push_back(std::move(value));
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted, Wanted(test, *node));
  return Compare(test, found, wanted);
}

absl::Status UpdateChecks::CheckReaders(const OpCase& test) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(Node* const node, Build(g, test, Knowledge::kNothing));
  const Variables alone(test), read(test);
  WEIR_RETURN_IF_ERROR(EvaluateNode(*node, alone.inputs(), *device_, kernels_).status());
  const std::vector<Tensor> readers = read.values();
  WEIR_RETURN_IF_ERROR(EvaluateNode(*node, read.inputs(), *device_, kernels_).status());
  std::vector<Tensor> initial;
  for (const CaseInput& input : test.inputs) {
    if (input.is_variable) initial.push_back(input.tensors[0]);
  }
  WEIR_RETURN_IF_ERROR(Compare(test, readers, initial));
  return Compare(test, read.values(), alone.values());
}

absl::Status UpdateChecks::CheckShapes(const OpCase& test) const {
  for (const Knowledge knowledge : {Knowledge::kTypes, Knowledge::kNothing}) {
    GraphBuilder g(StandardOps());
    WEIR_ASSIGN_OR_RETURN(Node* const node, Build(g, test, knowledge));
    const Variables variables(test);
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                          EvaluateNode(*node, variables.inputs(), *device_, kernels_));
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (node->output_shape(i).IsCompatibleWith(outputs[i].shape())) continue;
      return absl::InternalError(absl::StrCat("output ", i, " is ", outputs[i].shape().ToString(),
                                              ", inferred ", node->output_shape(i).ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status UpdateChecks::CheckSerialized(const OpCase& test) const {
  GraphBuilder g(StandardOps());
  WEIR_ASSIGN_OR_RETURN(Node* const node, Build(g, test, Knowledge::kTypes));
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, GraphDefBytes(g.graph()));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> parsed, GraphFromGraphDefBytes(bytes, StandardOps()));
  WEIR_ASSIGN_OR_RETURN(Node* const copy, parsed->LookupNode(node->name()));
  if (copy->attrs() != node->attrs()) return absl::InternalError("attrs changed on the way");
  const Variables before(test), after(test);
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> wanted, EvaluateNode(*node, before.inputs(), *device_, kernels_));
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> found, EvaluateNode(*copy, after.inputs(), *device_, kernels_));
  for (Tensor& value : before.values()) wanted.push_back(std::move(value));
  for (Tensor& value : after.values()) found.push_back(std::move(value));
  return Compare(test, found, wanted);
}

}  // namespace weir::conformance
