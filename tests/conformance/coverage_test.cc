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
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

// Those that kernels compute with. Quantized numbers are stored by all kernels that move elements, and what
// computes with them has calls for each of its dtypes.
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
  for (const Op* op : StandardOps().ops()) {
    const OpRecord* const record = Suite::Whole().Find(op->name());
    const bool has_calls = record != nullptr && (!record->calls().empty() || !record->updates().empty());
    const bool excused =
        IsRunByTheExecutor(op->name()) || (record != nullptr && !record->tested_elsewhere().empty());
    EXPECT_TRUE(has_calls || excused)
        << op->name() << " has no calls: add its record to tests/conformance/<family>/";
    EXPECT_FALSE(has_calls && excused) << op->name() << " has calls and an excuse";
  }
}

TEST(Coverage, EveryRecordIsOfAnOp) {
  for (const auto& [op, record] : Suite::Whole().records()) EXPECT_NE(StandardOps().Find(op), nullptr) << op;
}

TEST(Coverage, EveryDeclaredDTypeHasAKernel) {
  KernelRegistry kernels;
  RegisterCpuKernels(kernels);
  std::set<std::string> excuses;
  for (const auto& [op, record] : Suite::Whole().records()) {
    for (const OpRecord::Missing& missing : record.missing_kernels()) {
      for (DType dtype : missing.dtypes) {
        excuses.insert(absl::StrCat(op, " ", missing.attr, "=", DTypeName(dtype)));
      }
    }
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

// One dtype of each type attr.
using Combination = std::map<std::string, DType>;

// All combinations of dtypes that the schema allows and tensors here can have.
std::vector<Combination> CombinationsOf(const Op& op) {
  std::vector<Combination> all = {{}};
  for (const AttrDef& attr : op.attrs()) {
    if (attr.kind != AttrKind::kType) continue;
    std::vector<Combination> longer;
    for (const Combination& combination : all) {
      for (DType dtype : SupportedDTypes()) {
        if (!attr.allowed_types.empty() && !Contains(attr.allowed_types, dtype)) continue;
        longer.push_back(combination);
        longer.back()[attr.name] = dtype;
      }
    }
    all = std::move(longer);
  }
  return all;
}

bool Takes(const KernelDef& def, const Combination& combination) {
  for (const auto& [attr, dtype] : combination) {
    const auto types = def.types.find(attr);
    if (types != def.types.end() && !Contains(types->second, dtype)) return false;
  }
  return true;
}

bool IsExcused(const OpRecord* record, const Combination& combination) {
  if (record == nullptr) return false;
  for (const OpRecord::Missing& missing : record->missing_kernels()) {
    const auto found = combination.find(missing.attr);
    if (found != combination.end() && Contains(missing.dtypes, found->second)) return true;
  }
  return false;
}

TEST(Coverage, EveryCombinationOfDTypesHasAKernel) {
  KernelRegistry kernels;
  RegisterCpuKernels(kernels);
  for (const Op* op : StandardOps().ops()) {
    if (IsRunByTheExecutor(op->name())) continue;
    const std::vector<const KernelDef*> defs = kernels.DefsFor(op->name());
    const OpRecord* const record = Suite::Whole().Find(op->name());
    const bool may_lack = record != nullptr && !record->some_combinations_only().empty();
    bool lacks_some = false;
    for (const Combination& combination : CombinationsOf(*op)) {
      if (combination.size() < 2 || IsExcused(record, combination)) continue;
      const bool has_kernel = std::any_of(defs.begin(), defs.end(), [&combination](const KernelDef* def) {
        return Takes(*def, combination);
      });
      std::string what = op->name();
      for (const auto& [attr, dtype] : combination) absl::StrAppend(&what, " ", attr, "=", DTypeName(dtype));
      EXPECT_TRUE(has_kernel || may_lack) << "no CPU kernel for " << what;
      lacks_some = lacks_some || !has_kernel;
    }
    EXPECT_TRUE(lacks_some || !may_lack) << "excuse no longer needed: " << op->name();
  }
}

}  // namespace
}  // namespace weir::conformance
