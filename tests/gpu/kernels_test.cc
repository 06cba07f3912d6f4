// The calls of the conformance suite on a GPU, each a step of its own: what the CPU gives is expected, within
// the suite's errors. Without a GPU, the expectations are computed all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
#include "tests/conformance/comparison.h"
#include "tests/conformance/suite.h"
#include "tests/gpu/gpu_place.h"

namespace weir::gpu_check {
namespace {

using conformance::FlatInputs;
using conformance::OpCase;
using conformance::Suite;

// Sums come in another order, and functions such as exp are CUDA's own.
double ToleranceOf(const OpCase& test, DType dtype) {
  return 4 * std::max(test.tolerance, conformance::ToleranceOf(dtype));
}

std::string NameOf(const OpCase& test, size_t index) {
  std::string name = test.op;
  if (!test.inputs.empty() && !test.inputs[0].tensors.empty()) {
    name += absl::StrCat("_", DTypeName(test.inputs[0].tensors[0].dtype()));
  }
  if (!test.label.empty()) name += absl::StrCat("_", test.label);
  name += absl::StrCat("_", index);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

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

// Calls of ops that compute on the GPU, as far as their dtypes do.
std::vector<OpCase> OnGpus(const std::vector<OpCase>& calls) {
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

class KernelsTest : public ::testing::TestWithParam<size_t> {
 protected:
  static void Check(const OpCase& test) {
    absl::StatusOr<std::vector<Tensor>> results[2];
    for (const bool on_gpu : {false, true}) {
      if (on_gpu && !Gpu().why_not().empty()) GTEST_SKIP() << Gpu().why_not();
      GpuPlace& place = on_gpu ? Gpu() : Cpu();
      GraphBuilder g(place.runtime().ops());
      const CaseGraph graph(g, test, on_gpu ? "/gpu:0" : "/cpu:0");
      ASSERT_TRUE(g.ok()) << g.status();
      const auto session =
          place.NewSession(g.graph(), {.allow_soft_placement = false, .isolate_session_state = true});
      if (on_gpu) place.cuda().ClearLog();
      results[on_gpu] = graph.Run(*session);
      ASSERT_TRUE(results[on_gpu].ok()) << (on_gpu ? "GPU: " : "CPU: ") << results[on_gpu].status();
    }
    const std::vector<Tensor>&expected = *results[0], &found = *results[1];
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_TRUE(HasWorkOfGpu(Gpu().cuda().log()) || MayBeDoneWithout(test, found)) << "computed elsewhere";
    for (size_t i = 0; i < found.size(); ++i) {
      const absl::Status status = conformance::Compare(absl::StrCat("result ", i), found[i], expected[i],
                                                       ToleranceOf(test, expected[i].dtype()));
      EXPECT_TRUE(status.ok()) << status;
    }
  }
};

const std::vector<OpCase>& Calls() {
  static const auto& calls = *new std::vector<OpCase>(OnGpus(Suite::Whole().calls()));
  return calls;
}
const std::vector<OpCase>& Updates() {
  static const auto& updates = *new std::vector<OpCase>(OnGpus(Suite::Whole().updates()));
  return updates;
}

TEST_P(KernelsTest, GivesWhatTheCpuGives) { Check(Calls()[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Ops, KernelsTest, ::testing::Range<size_t>(0, Calls().size()),
                         [](const auto& info) { return NameOf(Calls()[info.param], info.param); });

class UpdatesTest : public KernelsTest {};

TEST_P(UpdatesTest, GivesWhatTheCpuGives) { Check(Updates()[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Ops, UpdatesTest, ::testing::Range<size_t>(0, Updates().size()),
                         [](const auto& info) { return NameOf(Updates()[info.param], info.param); });

// The suite has calls of each of them; a call that is none of a GPU's says nothing.
TEST(Kernels, EveryOpOfGpusIsCalled) {
  std::set<std::string> called;
  for (const std::vector<OpCase>* const cases : {&Calls(), &Updates()}) {
    for (const OpCase& test : *cases) called.insert(test.op);
  }
  std::vector<std::string> missing;
  for (const std::string& op : NamesOfCudaOps()) {
    const conformance::OpRecord* const record = Suite::Whole().Find(op);
    if (called.count(op) == 0 && record != nullptr && record->tested_elsewhere().empty())
      missing.push_back(op);
  }
  EXPECT_TRUE(missing.empty()) << missing.front();
}

}  // namespace
}  // namespace weir::gpu_check
