// Whether the suite is complete: every op has a case or an excuse, every dtype that a schema allows and Weir
// supports has a CPU kernel or an excuse. An excuse that is no longer needed is an error too.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/kernel_registry.h"
#include "ops/register_ops.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {
namespace {

// Ops that cannot be a case: they need a step, state or files, or give other numbers each time.
const std::map<std::string, std::string>& OpsWithoutCase() {
  static const auto* const excuses = new std::map<std::string, std::string>{
      {"Placeholder", "an error unless fed: session/session_test"},
      {"RandomUniform", "compared with TensorFlow's numbers: kernels/cpu/random_kernels_test"},
      {"RandomStandardNormal", "compared with TensorFlow's numbers: kernels/cpu/random_kernels_test"},
      {"TruncatedNormal", "compared with TensorFlow's numbers: kernels/cpu/random_kernels_test"},
      {"RandomUniformInt", "compared with TensorFlow's numbers: kernels/cpu/random_kernels_test"},
      {"VarHandleOp", "state: kernels/cpu/state_kernels_test"},
      {"ReadVariableOp", "state: kernels/cpu/state_kernels_test"},
      {"AssignVariableOp", "state: kernels/cpu/state_kernels_test"},
      {"AssignAddVariableOp", "state: kernels/cpu/state_kernels_test"},
      {"AssignSubVariableOp", "state: kernels/cpu/state_kernels_test"},
      {"VarIsInitializedOp", "state: kernels/cpu/state_kernels_test"},
      {"DestroyResourceOp", "state: kernels/cpu/state_kernels_test"},
      {"ResourceApplyGradientDescent", "state: kernels/cpu/state_kernels_test"},
      {"ResourceApplyMomentum", "state: kernels/cpu/state_kernels_test"},
      {"ResourceApplyKerasMomentum", "state: kernels/cpu/state_kernels_test"},
      {"ResourceApplyAdam", "state: kernels/cpu/state_kernels_test"},
      {"SaveV2", "files: kernels/cpu/io_kernels_test"},
      {"RestoreV2", "files: kernels/cpu/io_kernels_test"},
      {"ScalarSummary", "serialized protocol messages: kernels/cpu/io_kernels_test"},
      {"HistogramSummary", "serialized protocol messages: kernels/cpu/io_kernels_test"},
      {"MergeSummary", "serialized protocol messages: kernels/cpu/io_kernels_test"},
  };
  return *excuses;
}

// (op, type attr, dtype) without a CPU kernel, and why.
struct Missing {
  std::string op, attr;
  std::vector<DType> dtypes;
  std::string reason;
};

std::vector<Missing> MissingKernels();

// The dtypes of NOTES that clients feed and fetch. Quantised types and variants have no tensors here.
const std::vector<DType>& SupportedDTypes() {
  static const auto* const dtypes =
      new std::vector<DType>{DType::kFloat32, DType::kFloat64,  DType::kInt32,     DType::kInt64,
                             DType::kHalf,    DType::kBfloat16, DType::kInt8,      DType::kUint8,
                             DType::kInt16,   DType::kUint16,   DType::kUint32,    DType::kUint64,
                             DType::kBool,    DType::kString,   DType::kComplex64, DType::kComplex128};
  return *dtypes;
}

bool Contains(const std::vector<DType>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

bool HasKernel(const KernelRegistry& kernels, const std::string& op, const std::string& attr, DType dtype) {
  for (const KernelDef* def : kernels.DefsFor(op)) {
    auto types = def->types.find(attr);
    if (types == def->types.end() || Contains(types->second, dtype)) return true;
  }
  return false;
}

TEST(Coverage, EveryOpHasACase) {
  std::set<std::string> covered;
  for (const OpCase& test : AllCases()) covered.insert(test.op);
  for (const Op* op : StandardOps().ops()) {
    const bool excused = OpsWithoutCase().count(op->name()) > 0 || IsRunByTheExecutor(op->name());
    EXPECT_TRUE(covered.count(op->name()) > 0 || excused)
        << op->name() << " has no case: add one to tests/conformance/cases_<family>.cc";
    EXPECT_FALSE(covered.count(op->name()) > 0 && excused) << op->name() << " has a case and an excuse";
  }
}

TEST(Coverage, EveryDeclaredDTypeHasAKernel) {
  KernelRegistry kernels;
  RegisterCpuKernels(kernels);
  std::set<std::string> excuses;
  for (const Missing& missing : MissingKernels()) {
    for (DType dtype : missing.dtypes)
      excuses.insert(absl::StrCat(missing.op, " ", missing.attr, "=", DTypeName(dtype)));
  }
  for (const Op* op : StandardOps().ops()) {
    if (IsRunByTheExecutor(op->name())) continue;
    EXPECT_FALSE(kernels.DefsFor(op->name()).empty()) << op->name() << " has no CPU kernel";
    for (const AttrDef& attr : op->attrs()) {
      if (attr.kind != AttrKind::kType) continue;
      for (DType dtype : SupportedDTypes()) {
        if (!attr.allowed_types.empty() && !Contains(attr.allowed_types, dtype)) continue;
        const std::string what = absl::StrCat(op->name(), " ", attr.name, "=", DTypeName(dtype));
        const bool has_kernel = HasKernel(kernels, op->name(), attr.name, dtype);
        EXPECT_TRUE(has_kernel || excuses.count(what) > 0) << "no CPU kernel for " << what;
        EXPECT_FALSE(has_kernel && excuses.count(what) > 0) << "excuse no longer needed: " << what;
      }
    }
  }
}

std::vector<Missing> MissingKernels() {
  const std::vector<DType> complex = {DType::kComplex64, DType::kComplex128};
  const std::vector<DType> integers = {DType::kInt32, DType::kInt64,  DType::kInt8,   DType::kUint8,
                                       DType::kInt16, DType::kUint16, DType::kUint32, DType::kUint64};
  const char* const not_in_tensorflow = "TensorFlow has none either";
  std::vector<Missing> missing = {
      {"Cast", "SrcT", {DType::kString}, "numbers are read from text by StringToNumber"},
      {"Cast", "DstT", {DType::kString}, "numbers are written as text by AsString"},
      {"RealDiv", "T", integers, not_in_tensorflow},
      {"FloorDiv", "T", complex, not_in_tensorflow},
      {"AssignAddVariableOp", "dtype", {DType::kBool, DType::kString}, not_in_tensorflow},
      {"AssignSubVariableOp", "dtype", {DType::kBool, DType::kString}, not_in_tensorflow},
  };
  for (const char* op : {"ResourceApplyGradientDescent", "ResourceApplyMomentum",
                         "ResourceApplyKerasMomentum", "ResourceApplyAdam"}) {
    missing.push_back({op, "T", integers, not_in_tensorflow});
    missing.push_back({op, "T", complex, "no model here is trained in complex numbers"});
  }
  return missing;
}

}  // namespace
}  // namespace weir::conformance
