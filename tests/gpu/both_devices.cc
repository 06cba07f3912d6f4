#include "tests/gpu/both_devices.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/cuda/cuda_kernels.h"
#include "ops/register_ops.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/session.h"
#include "tests/conformance/case_graph.h"
#include "tests/gpu/gpu_place.h"

namespace weir::gpu_check {
namespace {

using conformance::FlatInputs;
using conformance::OpCase;

// A case with its inputs as placeholders, or as variables, on one device.
struct CaseGraph {
  CaseGraph(GraphBuilder& g, const OpCase& test, const std::string& device) {
    auto scope = g.DeviceScope(device);
    std::vector<bool> is_variable;
    for (const conformance::CaseInput& input : test.inputs) {
      is_variable.insert(is_variable.end(), input.tensors.size(), input.is_variable);
    }
    node = conformance::AddCase(g, test, [&](int i, const Tensor& value) {
      if (is_variable[i]) {
        const ModelVariable variable = MakeVariable(g, absl::StrCat("variable", i), value);
        handles.push_back(variable.handle);
        initializers.push_back(variable.initializer);
        return variable.handle;
      }
      const Output fed = Placeholder(g, value.dtype(), PartialShape(value.shape()));
      feeds.emplace_back(fed, value);
      return fed;
    });
    for (int i = 0; node != nullptr && i < node->num_outputs(); ++i) outputs.push_back(node->output(i));
    for (const Output& handle : handles) {
      new_values.push_back(g.AddOp("ReadVariableOp", {handle}, {{"dtype", VariableType(handle)}}));
    }
  }

  static DType VariableType(const Output& handle) { return handle.node->attrs().at("dtype").get<DType>(); }

  // The outputs, then the variables' new values.
  absl::StatusOr<std::vector<Tensor>> Run(Session& session) const {
    if (!initializers.empty()) WEIR_RETURN_IF_ERROR(session.Run({}, {}, initializers).status());
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> results, session.Run(feeds, outputs, {node}));
    if (new_values.empty()) return results;
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values, session.Run({}, new_values));
    results.insert(results.end(), values.begin(), values.end());
    return results;
  }

  Node* node = nullptr;
  Feeds feeds;
  std::vector<TensorRef> outputs, new_values;
  std::vector<Output> handles;
  std::vector<TargetRef> initializers;
};

// What GPUs have kernels for, and which of them compute there.
const KernelRegistry& CudaKernels() {
  static const auto& kernels = *[] {
    auto* const made = new KernelRegistry;
    KernelRegistry of_host;
    RegisterCpuKernels(of_host, "GPU");
    RegisterCudaKernels(*made, of_host, StandardOps());
    return made;
  }();
  return kernels;
}

// Made once, as a CUDA device costs more than most calls. Never destroyed: the process ends with the tests.
GpuPlace& Gpu() {
  static auto& place = *new GpuPlace({.num_threads = 2});
  return place;
}
GpuPlace& Cpu() {
  static auto& place = *new GpuPlace({.num_threads = 2}, 0);
  return place;
}

bool HasWorkOfGpu(const std::vector<std::string>& log) {
  return std::any_of(log.begin(), log.end(), [](const std::string& line) {
    return absl::StartsWith(line, "cudaLaunchKernel") || absl::StartsWith(line, "cudaMemsetAsync") ||
           absl::StartsWith(line, "cudaMemcpyAsync on_device");
  });
}

// Shapes and the like, which are computed on the host; nothing; and what is an input as it is.
bool MayBeDoneWithout(const OpCase& test, const std::vector<Tensor>& results) {
  const std::vector<Tensor> inputs = FlatInputs(test);
  return std::all_of(results.begin(), results.end(), [&](const Tensor& result) {
    return !IsFloating(result.dtype()) || result.num_elements() == 0 ||
           std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
             return input.num_bytes() == result.num_bytes() &&
                    std::memcmp(input.data(), result.data(), result.num_bytes()) == 0;
           });
  });
}

absl::StatusOr<std::vector<Tensor>> RunOn(GpuPlace& place, const OpCase& test, const std::string& device) {
  GraphBuilder g(place.runtime().ops());
  const CaseGraph graph(g, test, device);
  WEIR_RETURN_IF_ERROR(g.status());
  const auto session =
      place.NewSession(g.graph(), {.allow_soft_placement = false, .isolate_session_state = true});
  place.cuda().ClearLog();
  return graph.Run(*session);
}

}  // namespace

absl::StatusOr<BothResults> RunOnBoth(const OpCase& test) {
  BothResults results;
  WEIR_ASSIGN_OR_RETURN(results.cpu, RunOn(Cpu(), test, "/cpu:0"));
  if (!Gpu().why_not().empty()) return absl::NotFoundError(Gpu().why_not());
  WEIR_ASSIGN_OR_RETURN(results.gpu, RunOn(Gpu(), test, "/gpu:0"));
  if (!HasWorkOfGpu(Gpu().cuda().log()) && !MayBeDoneWithout(test, results.gpu)) {
    return absl::InternalError("it was computed elsewhere than on the GPU");
  }
  return results;
}

std::vector<OpCase> CallsForGpus(const std::vector<OpCase>& calls) {
  const std::vector<std::string> names = NamesOfCudaOps();
  const std::set<std::string> ops(names.begin(), names.end());
  std::vector<OpCase> chosen;
  for (const OpCase& test : calls) {
    if (ops.count(test.op) == 0) continue;
    GraphBuilder g(StandardOps());
    const CaseGraph graph(g, test, "/gpu:0");
    if (!g.ok() || CudaKernels().KindsOf(*graph.node, "GPU").own == MemoryKind::kHost) continue;
    chosen.push_back(test);
  }
  return chosen;
}

}  // namespace weir::gpu_check
