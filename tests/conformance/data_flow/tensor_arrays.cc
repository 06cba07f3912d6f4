// Stacks and arrays of tensors: what their ops refuse without one. session/tensor_arrays_test.cc has the
// rest.
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using Code = absl::StatusCode;
const char kElsewhere[] = "state: session/tensor_arrays_test.cc, tests/interop";

void AddHandleOps(Suite& suite) {
  struct HandleOp {
    std::string op;
    std::vector<CaseInput> others;  // behind the handle
    AttrMap attrs;
    std::string kind = "TensorArray";
  };
  const AttrMap floats = {{"dtype", D::kFloat32}};
  const Tensor flow = Tensor::Scalar(0.0f);
  const std::vector<HandleOp> ops = {
      {"StackPushV2", {Floats({2})}, {}, "Stack"},
      {"StackPopV2", {}, {{"elem_type", D::kFloat32}}, "Stack"},
      {"StackCloseV2", {}, {}, "Stack"},
      {"TensorArrayGradV3", {flow}, {{"source", "gradients"}}},
      {"TensorArrayGradWithShape", {flow, Sizes({2})}, {{"source", "gradients"}}},
      {"TensorArrayWriteV3", {Int(0), Floats({2}), flow}, {}},
      {"TensorArrayReadV3", {Int(0), flow}, floats},
      {"TensorArrayGatherV3", {Sizes({0}), flow}, floats},
      {"TensorArrayScatterV3", {Sizes({0}), Floats({1, 2}), flow}, {}},
      {"TensorArrayConcatV3", {flow}, floats},
      {"TensorArraySplitV3", {Floats({2}), Tensor::Vector<int64_t>({2}), flow}, {}},
      {"TensorArraySizeV3", {flow}, {}},
      {"TensorArrayCloseV3", {}, {}},
  };
  for (const HandleOp& each : ops) {
    const auto inputs = [&each](Tensor handle) {
      std::vector<CaseInput> all = {std::move(handle)};
      all.insert(all.end(), each.others.begin(), each.others.end());
      return all;
    };
    suite.Op(each.op)
        .TestedElsewhere(kElsewhere)
        .Hostile(inputs(MissingHandle()), "weights", each.attrs)
        .Hostile(inputs(NoHandles()), "must", each.attrs)
        .Hostile(inputs(HandleOf(Floats({2}))), "must be a handle of a " + each.kind, each.attrs);
  }
}

}  // namespace

void AddTensorArraysRecords(Suite& suite) {
  AddHandleOps(suite);
  suite.Op("StackV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({Sizes({1, 2})}, "max_size", {{"elem_type", D::kFloat32}});
  suite.Op("TensorArrayV3")
      .TestedElsewhere(kElsewhere)
      .Hostile({Int(-1)}, "Size should be >= 0", {{"dtype", D::kFloat32}})
      .Hostile({Int(kHuge)}, "at most", {{"dtype", D::kFloat32}}, Code::kResourceExhausted);
}

}  // namespace weir::conformance
