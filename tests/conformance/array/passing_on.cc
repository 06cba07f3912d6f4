#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;

void PassOn(reference::Call& call) { call.outputs = {call.in(0)}; }

// Byte by byte: elements of T are written into a row of bytes and read as elements of another dtype.
void Bitcast(reference::Call& call) {
  const Tensor from = call.in(0).ToTensor(call.node.input_type(0));
  const DType type = call.node.output_type(0);
  reference::Index dims = call.in(0).dims();
  const auto bytes = static_cast<int64_t>(from.num_bytes());
  if (DTypeSize(from.dtype()) < DTypeSize(type)) dims.pop_back();
  if (DTypeSize(from.dtype()) > DTypeSize(type)) {
    dims.push_back(static_cast<int64_t>(DTypeSize(from.dtype()) / DTypeSize(type)));
  }
  Tensor to(type, Shape(absl::MakeConstSpan(dims)));
  for (int64_t i = 0; i < bytes; ++i) {
    static_cast<char*>(to.data())[i] = static_cast<const char*>(from.data())[i];
  }
  call.outputs = {Array::FromTensor(to)};
}

}  // namespace

void AddPassingOnRecords(Suite& suite) {
  OpRecord& bitcast = suite.Op("Bitcast").Reference(Bitcast).NoGradient();
  for (DType d : kNumbers) {
    const auto size = static_cast<int64_t>(DTypeSize(d));
    bitcast.Call({Sample(d, {3}, IsUnsigned(d) ? 0 : -3, 3)}, {{"type", DType::kUint8}})
        .Call({Sample(DType::kUint8, size == 1 ? std::vector<int64_t>{2} : std::vector<int64_t>{2, size}, 0,
                      50)},
              {{"type", d}});
  }
  for (const DType d : {DType::kQint8, DType::kQuint8, DType::kQint32, DType::kQint16, DType::kQuint16}) {
    bitcast.Call({Sample(d, {2, 4}, 0, 100)}, {{"type", StoredAs(d)}})
        .Call({Sample(StoredAs(d), {2, 4}, 0, 100)}, {{"type", d}});
  }
  bitcast.Call({Floats({2, 2})}, {{"type", DType::kInt32}})
      .Call({Floats({2, 2})}, {{"type", DType::kComplex64}})
      .Call({Floats({0, 2})}, {{"type", DType::kInt64}})
      .Hostile({Floats({2, 3})}, "input must end with a dimension of 2, is [2,3]", {{"type", DType::kInt64}})
      .Hostile({Floats({})}, "input must end with a dimension of 2, is []", {{"type", DType::kFloat64}});

  suite.Op("EnsureShape")
      .Reference(PassOn)
      .Call({Floats({2, 3})}, {{"shape", PartialShape({PartialShape::kUnknownDim, 3})}})
      .Call({Floats({2, 3})}, {{"shape", PartialShape()}})
      .Call({Strings({1}, {"a"})}, {{"shape", PartialShape({1})}})
      .Hostile({Floats({2, 3})}, "input is [2,3], shape is [?,2]", {{"shape", PartialShape({-1, 2})}})
      .Hostile({Floats({2, 3})}, "input is [2,3], shape is [6]", {{"shape", PartialShape({6})}});
  OpRecord& constant = suite.Op("GuaranteeConst").Reference(PassOn).NoGradient();
  for (const DType d : kEveryWidth) constant.Call({Any(d, {2, 3})});
  constant.Hostile({HandleOf(Floats({2}))}, "Input tensor cannot be a resource variable handle.");
  suite.Op("PreventGradient")
      .Reference(PassOn)
      .CannotFail()
      .NoGradient()
      .Call({Floats({2, 3})})
      .Call({Strings({1}, {"a"})}, {{"message", "no"}});
  suite.Op("Snapshot").Reference(PassOn).CannotFail().Call({Floats({2, 3})}).Call({Strings({1}, {"a"})});
}

}  // namespace weir::conformance
