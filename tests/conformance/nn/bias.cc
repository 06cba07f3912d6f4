// A bias for each channel.
#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

bool ChannelsFirst(const Call& call) { return call.text("data_format") == "NCHW"; }

int ChannelAxis(const Call& call, const Array& value) { return ChannelsFirst(call) ? 1 : value.rank() - 1; }

void BiasAdd(Call& call) {
  const Array& value = call.in(0);
  call.outputs[0] = value;
  for (int64_t i = 0; i < value.size(); ++i) {
    call.outputs[0][i].number += call.in(1)[value.IndexOf(i)[ChannelAxis(call, value)]].number;
  }
}

void BiasAddGrad(Call& call) {
  const Array& grad = call.in(0);
  call.outputs[0] = Array({grad.dim(ChannelAxis(call, grad))});
  for (int64_t i = 0; i < grad.size(); ++i) {
    call.outputs[0][grad.IndexOf(i)[ChannelAxis(call, grad)]].number += grad[i].number;
  }
}

void AddBiasAdd(Suite& suite) {
  OpRecord& record = suite.Op("BiasAdd").Reference(BiasAdd);
  for (D d : kReals) {
    record.Call({Sample(d, {3, 5}), Sample(d, {5}, -1, 1, 3)});
  }
  record.Call({Sample(D::kFloat32, {2, 3, 2, 2}), Sample(D::kFloat32, {3})}, {{"data_format", "NCHW"}})
      .Call({Sample(D::kFloat32, {2, 3, 2, 4}), Sample(D::kFloat32, {4})})
      .Hostile({Floats({2, 3}), Floats({2})}, "the bias must be [3]")
      .Hostile({Floats({2, 3}), Floats({3, 1})}, "the bias must be [3]")
      .Hostile({Floats({3}), Floats({3})}, "a batch and a channel dimension");
}

void AddBiasAddGrad(Suite& suite) {
  OpRecord& record = suite.Op("BiasAddGrad").Reference(BiasAddGrad);
  for (D d : kReals) {
    record.Call({.inputs = {Sample(d, {7, 5})}, .tolerance = SumTolerance(d)});
  }
  record.Call({Sample(D::kFloat32, {2, 3, 2, 2})}, {{"data_format", "NCHW"}})
      .Hostile({Floats({3})}, "a batch and a channel dimension")
      .OutOfMemory({Empty({0, kWide})});
}

}  // namespace

void AddBiasRecords(Suite& suite) {
  AddBiasAdd(suite);
  AddBiasAddGrad(suite);
}

}  // namespace weir::conformance
