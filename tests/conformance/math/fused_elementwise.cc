// Programs of elementwise ops (graph/fused_ops.h), by the definitions of the ops.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "graph/fused_ops.h"
#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using Ops = std::vector<std::string>;
using Operands = std::vector<int64_t>;

double Result(const std::string& op, double x, double y) {
  if (op == "Neg") return -x;
  if (op == "Tanh") return std::tanh(x);
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "AddV2") return x + y;
  if (op == "Sub") return x - y;
  if (op == "Mul") return x * y;
  if (op == "Maximum") return std::max(x, y);
  return y > 0 ? x : 0;  // ReluGrad
}

void FusedElementwise(reference::Call& call) {
  const auto& ops = call.node.attr<Ops>("ops");
  const auto& operands = call.integers("operands");
  Index dims = call.in(0).dims();
  for (const Array& input : call.inputs) dims = BroadcastDims(Array(dims), input);
  call.outputs[0] = Generate(dims, [&](const Index& index) {
    std::vector<double> values;
    for (const Array& input : call.inputs) values.push_back(BroadcastAt(input, index).real());
    for (size_t i = 0; i < ops.size(); ++i) {
      const int64_t x = operands[2 * i], y = operands[2 * i + 1];
      values.push_back(Result(ops[i], values[x], y == kNoOperand ? 0 : values[y]));
    }
    return Value(values.back());
  });
}

CaseInput List(std::vector<Tensor> tensors) { return CaseInput(std::move(tensors)); }

}  // namespace

void AddFusedElementwiseRecords(Suite& suite) {
  OpRecord& record = suite.Op("_FusedElementwise").Reference(FusedElementwise);
  const auto program = [](Ops ops, Operands operands) {
    return AttrMap{{"ops", std::move(ops)}, {"operands", std::move(operands)}};
  };
  const AttrMap mixed = program({"Mul", "Tanh", "AddV2", "Neg", "Maximum"}, {0, 2, 3, -1, 4, 1, 5, -1, 6, 0});
  const AttrMap difference = program({"Sub", "ReluGrad"}, {0, 1, 2, 0});
  using Dims = std::vector<int64_t>;
  for (DType d : kReals) {
    for (const Dims& dims : {Dims{7}, Dims{2, 0}, Dims{}, Dims{1, 1}, Dims{3, 1000}}) {
      record.Tolerance(d == DType::kHalf       ? 4e-3
                       : d == DType::kBfloat16 ? 4e-2
                                               : 0)
          .Call({List({Sample(d, dims, -1, 1, 1), Sample(d, dims, -1, 1, 2), Sample(d, {}, -1, 1, 3)})},
                mixed);
    }
    record.Call({List({Sample(d, {40}, -1, 1, 1), Sample(d, {40}, -1, 1, 2)})}, difference)
        .Call({List({Sample(d, {}, -1, 1, 1), Sample(d, {1, 1}, -1, 1, 2), Sample(d, {1}, -1, 1, 3)})}, mixed)
        .Call({List({Sample(d, {2, 3}, 1, 2, 1)})}, program({"Sqrt"}, {0, -1}));
  }
  const auto f = [](Dims dims) { return Sample(DType::kFloat32, std::move(dims)); };
  const auto refuse = [&](std::vector<Tensor> inputs, Ops ops, Operands operands, const char* error,
                          absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    record.Hostile({List(std::move(inputs))}, error, program(std::move(ops), std::move(operands)), code);
  };
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  refuse({f({2})}, {}, {}, "at least one");
  refuse({f({2})}, {"Neg"}, {0, -1, 0}, "two for each");
  refuse({f({2})}, {"Neg"}, {1, -1}, "has the operands 1 and -1");
  refuse({f({2})}, {"Neg", "Mul"}, {0, -1, 1, 2}, "has the operands 1 and 2");
  refuse({f({2})}, {"Neg", "Mul"}, {0, -1, -7, 1}, "has the operands -7 and 1");
  refuse({f({2})}, {"Neg"}, {int64_t{1} << 62, -1}, "has the operands");
  refuse({f({2})}, {"Mul"}, {0, -1}, "no op of one operand", unimplemented);
  refuse({f({2})}, {"Assert"}, {0, 0}, "no op of two operands", unimplemented);
  refuse({f({2})}, {"Less"}, {0, 0}, "no op of two operands that gives float", unimplemented);
  refuse({f({2})}, Ops(33, "Neg"), Operands(66, 0), "at most", unimplemented);
  refuse({f({2}), f({3})}, {"Mul"}, {0, 1}, "inputs[1] must be [2] or one element, is [3]");
  refuse({f({2}), f({2, 1})}, {"Mul"}, {0, 1}, "inputs[1] must be [2] or one element, is [2,1]");
  refuse({f({2}), f({1, 1})}, {"Mul"}, {0, 1}, "is [1,1]");
  refuse({f({2}), f({})}, {"ReluGrad"}, {0, 1}, "takes operands of one shape");
}

}  // namespace weir::conformance
