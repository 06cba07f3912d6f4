// Accumulators of gradients: what their ops refuse without one, and of hostile gradients.
// session/accumulators_test.cc has the rest.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using Code = absl::StatusCode;

constexpr char kElsewhere[] = "state: session/accumulators_test.cc";

Tensor Long(int64_t value) { return Tensor::Scalar(value); }
Tensor Names(const std::string& name) { return Words({"", name}); }

OpRecord& Record(Suite& suite, const std::string& op, bool has_dtype) {
  OpRecord& record = suite.Op(op).TestedElsewhere(kElsewhere);
  if (!has_dtype) return record;
  return record.NoKernelFor("dtype",
                            {D::kInt32, D::kUint8, D::kInt16, D::kInt8, D::kComplex64, D::kInt64,
                             D::kBfloat16, D::kUint16, D::kComplex128, D::kUint32, D::kUint64},
                            "TensorFlow's kernel has half, float and double");
}

// What no op on an accumulator takes in place of its handle.
void AddHostileHandles(OpRecord& record, bool is_resource, std::vector<CaseInput> others,
                       const AttrMap& attrs = {}) {
  const auto with = [&others](Tensor handle) {
    std::vector<CaseInput> inputs = {std::move(handle)};
    inputs.insert(inputs.end(), others.begin(), others.end());
    return inputs;
  };
  if (is_resource) {
    record.Hostile(with(MissingHandle()), "weights", attrs)
        .Hostile(with(NoHandles()), "must be one resource handle", attrs)
        .Hostile(with(HandleOf(Floats({2}))), "must be a handle of a ConditionalAccumulator", attrs);
    return;
  }
  record.Hostile(with(Names("nobody")), "nobody", attrs, Code::kNotFound)
      .Hostile(with(Words({"nobody"})), "must be a container and a name", attrs)
      .Hostile(with(Strings({}, {"nobody"})), "handle must", attrs);
}

void AddOpsOnBoth(Suite& suite, const std::string& prefix) {
  const bool is_resource = prefix == "Resource";
  const AttrMap floats = {{"dtype", D::kFloat32}};
  AddHostileHandles(Record(suite, prefix + "AccumulatorApplyGradient", true), is_resource,
                    {Long(0), Floats({2})});
  AddHostileHandles(Record(suite, prefix + "AccumulatorTakeGradient", true), is_resource, {Int(1)}, floats);
  AddHostileHandles(Record(suite, prefix + "AccumulatorNumAccumulated", false), is_resource, {});
  AddHostileHandles(Record(suite, prefix + "AccumulatorSetGlobalStep", false), is_resource, {Long(1)});
}

}  // namespace

void AddAccumulatorsRecords(Suite& suite) {
  for (const char* kind : {"", "Sparse", "Resource"}) {
    Record(suite, absl::StrCat(kind, "ConditionalAccumulator"), true).CannotFail();
  }
  AddOpsOnBoth(suite, "");
  AddOpsOnBoth(suite, "Resource");
  AddHostileHandles(Record(suite, "SparseAccumulatorApplyGradient", true), false,
                    {Long(0), Longs({1}), Floats({1, 2}), Longs({})}, {{"has_known_shape", false}});
  AddHostileHandles(Record(suite, "SparseAccumulatorTakeGradient", true), false, {Int(1)},
                    {{"dtype", D::kFloat32}});
}

}  // namespace weir::conformance
