// Checks, which pass tensors on or stop a step.
#include <cmath>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

void PassThrough(Call& call) {
  for (size_t i = 0; i < call.outputs.size(); ++i) call.outputs[i] = call.in(static_cast<int>(i));
}

void AddCheckNumerics(Suite& suite) {
  OpRecord& record = suite.Op("CheckNumerics").Reference(PassThrough);
  record.Call({Floats({2, 3})}, {{"message", "never seen"}})
      .Call({Sample(D::kHalf, {7})}, {{"message", "never seen"}})
      .Hostile({Make(D::kFloat32, {2}, {1, std::nan("")})}, "the loss", {{"message", "the loss"}})
      .Hostile({Make(D::kFloat64, {2}, {1, INFINITY})}, "Inf", {{"message", "the loss"}});
}

void AddAssert(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& record = suite.Op("Assert").Reference([](Call&) {});
  record.Call({Tensor::Scalar(true), std::vector<Tensor>{Floats({2}), Ints({1})}})
      .Hostile({Tensor::Scalar(false), Tensors{Ints({42})}}, "42")
      .Hostile({Bools({2}, {1, 1}), Tensors{Ints({42})}}, "condition must be a scalar")
      .Hostile({Bools({0}, {}), Tensors{Ints({42})}}, "condition must be a scalar");
}

}  // namespace

void AddChecksRecords(Suite& suite) {
  AddCheckNumerics(suite);
  AddAssert(suite);
}

}  // namespace weir::conformance
