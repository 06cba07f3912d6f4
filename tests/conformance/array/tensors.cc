// Making, passing on, reshaping and converting tensors.
#include <algorithm>
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

Tensor L(int64_t value) { return Tensor::Scalar(value); }
Tensor Float(double value) { return Make(D::kFloat32, {}, {value}); }

Array Scalar(double value) { return Array({}, Value(value)); }

void PassThrough(Call& call) {
  for (size_t i = 0; i < call.outputs.size(); ++i) call.outputs[i] = call.in(static_cast<int>(i));
}

// The number of a floating type that is nearest to a double; integers as they are.
double Rounded(D dtype, double number) {
  return IsFloating(dtype) ? Array::FromTensor(Make(dtype, {}, {number}))[0].real() : number;
}

// Each operation rounds to the dtype: whether the last element lies before limit may depend on it.
void Range(Call& call) {
  const double start = call.in(0)[0].real(), limit = call.in(1)[0].real(), delta = call.in(2)[0].real();
  const auto rounded = [dtype = call.node.output_type(0)](double x) { return Rounded(dtype, x); };
  const auto size = static_cast<int64_t>(std::ceil(rounded(rounded(limit - start) / delta)));
  call.outputs[0] = Array({size});
  for (int64_t i = 0; i < size; ++i) {
    call.outputs[0][i] = rounded(start + rounded(rounded(static_cast<double>(i)) * delta));
  }
}

void Reshape(Call& call) {
  Index dims = call.in(1).integers();
  int64_t known = 1;
  for (int64_t dim : dims) known *= dim == -1 ? 1 : dim;
  int64_t size = call.in(0).size();
  if (known == 0) {  // beside a 0, -1 stands for what dimensions that are not 0 leave
    known = size = 1;
    for (int64_t dim : dims) known *= dim > 0 ? dim : 1;
    for (int64_t dim : call.in(0).dims()) size *= dim > 0 ? dim : 1;
  }
  for (int64_t& dim : dims) dim = dim == -1 ? size / known : dim;
  call.outputs[0] = call.in(0).WithDims(dims);
}

void ExpandDims(Call& call) {
  Index dims = call.in(0).dims();
  dims.insert(dims.begin() + Call::Axis(call.in(1)[0].integer(), call.in(0).rank() + 1), 1);
  call.outputs[0] = call.in(0).WithDims(dims);
}

void Squeeze(Call& call) {
  const Array& input = call.in(0);
  std::vector<bool> named(input.rank(), call.integers("squeeze_dims").empty());
  for (int64_t axis : call.integers("squeeze_dims")) named[Call::Axis(axis, input.rank())] = true;
  Index dims;
  for (int i = 0; i < input.rank(); ++i) {
    if (!named[i] || input.dim(i) != 1) dims.push_back(input.dim(i));
  }
  call.outputs[0] = input.WithDims(dims);
}

void Transpose(Call& call) {
  const Index perm = call.in(1).integers();
  Index dims;
  for (int64_t from : perm) dims.push_back(call.in(0).dim(static_cast<int>(from)));
  call.outputs[0] = Generate(dims, [&](const Index& index) {
    Index source(index.size());
    for (size_t i = 0; i < index.size(); ++i) source[perm[i]] = index[i];
    return call.in(0).at(source);
  });
}

void InvertPermutation(Call& call) {
  call.outputs[0] = Array(call.in(0).dims());
  for (int64_t i = 0; i < call.in(0).size(); ++i)
    call.outputs[0][call.in(0)[i].integer()] = static_cast<double>(i);
}

void Cast(Call& call) {
  call.outputs[0] = call.in(0);
  const DType target = call.node.output_type(0);
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    Value& value = call.outputs[0][i];
    if (!IsComplex(target)) value = value.real();
    if (!IsComplex(target) && !IsFloating(target) && target != DType::kBool) value = std::trunc(value.real());
  }
}

void AddConst(Suite& suite) {
  OpRecord& record =
      suite.Op("Const")
          .Reference([](Call& call) { call.outputs[0] = Array::FromTensor(call.node.attr<Tensor>("value")); })
          .CannotFail();
  for (D d : kEveryWidth) {
    record.Call({}, {{"value", Any(d, {2, 3})}, {"dtype", d}});
  }
}

void AddIdentity(Suite& suite) {
  OpRecord& record = suite.Op("Identity").Reference(PassThrough).CannotFail();
  for (D d : Join({kEveryWidth, {DType::kQint16}})) {
    record.Call({Any(d, {2, 3})});
  }
}

void AddIdentityN(Suite& suite) {
  OpRecord& record = suite.Op("IdentityN").Reference(PassThrough).CannotFail();
  record.Call({std::vector<Tensor>{Floats({2}), Ints({1}), Strings({}, {"x"})}});
}

void AddStopGradient(Suite& suite) {
  OpRecord& record = suite.Op("StopGradient").Reference(PassThrough).NoGradient().CannotFail();
  for (D d : kEveryWidth) {
    record.Call({Any(d, {2, 3})});
  }
}

// Its shape is its attr's: what is fed may differ from the default.
void AddPlaceholderWithDefault(Suite& suite) {
  OpRecord& record =
      suite.Op("PlaceholderWithDefault").Reference(PassThrough).ShapeDependsOnValues().CannotFail();
  record.Call({Floats({2, 3})}, {{"shape", PartialShape({-1, 3})}});
}

void AddPlaceholder(Suite& suite) {
  OpRecord& record = suite.Op("Placeholder").TestedElsewhere("an error unless fed: session/session_test");
  record.Hostile({}, "You must feed a value", {{"dtype", D::kFloat32}});
}

void AddNoOp(Suite& suite) {
  OpRecord& record = suite.Op("NoOp").Reference([](Call&) {}).CannotFail();
  record.Call(std::vector<CaseInput>{});
}

void AddFill(Suite& suite) {
  OpRecord& record = suite.Op("Fill").Reference(
      [](Call& call) { call.outputs[0] = Array(call.in(0).integers(), call.in(1)[0]); });
  for (D d : kEveryWidth) {
    record.Call({Ints({2, 3}), Any(d, {})});
  }
  record.Call({Longs({}), Floats({})})
      .Call({Ints({2, 0}), Floats({})})
      .Hostile({Ints({-1}), Floats({})}, "dims")
      .Hostile({Longs({kLongest, kLongest}), Floats({})}, "dims")
      .Hostile({Longs({kWide, 0, kWide}), Floats({})}, "dims")
      .Hostile({Ints({2}), Floats({3})}, "value must be a scalar")
      .Hostile({Sample(D::kInt32, {2, 2}), Floats({})}, "dims must be a vector")
      .Hostile({Ints({2}), Floats({0})}, "value must be a scalar")
      .OutOfMemory({Longs({kLongest / 8}), Floats({})})
      .OutOfMemory({Longs({kLongest / 8}), Strings({}, {"x"})});
}

void AddEmpty(Suite& suite) {
  OpRecord& record =
      suite.Op("Empty").Reference([](Call& call) { call.outputs[0] = Array(call.in(0).integers()); });
  for (D d : Join({kNumbers, {D::kBool, D::kString}})) {
    record.Call({Ints({2, 3})}, {{"dtype", d}, {"init", true}});
  }
  record.Call({Ints({2, 3})}, {{"dtype", D::kFloat32}})
      .Call({Ints({})}, {{"dtype", D::kFloat32}, {"init", true}})
      .Call({Ints({3, 0})}, {{"dtype", D::kFloat32}, {"init", true}})
      .Hostile({Int(2)}, "shape must be a vector of int32, got shape []", {{"dtype", D::kFloat32}})
      .Hostile({Make(D::kInt32, {1, 1}, {2})}, "got shape [1,1]", {{"dtype", D::kString}})
      .Hostile({Ints({2, -2})}, "shape", {{"dtype", D::kFloat32}})
      .OutOfMemory({Ints({kHuge})}, {{"dtype", D::kFloat32}});
}

void AddZerosLike(Suite& suite) {
  OpRecord& record = suite.Op("ZerosLike")
                         .Reference([](Call& call) { call.outputs[0] = Array(call.in(0).dims()); })
                         .CannotFail();
  for (D d : kEveryWidth) {
    record.Call({Any(d, {3, 5})});
  }
}

void AddOnesLike(Suite& suite) {
  OpRecord& record =
      suite.Op("OnesLike")
          .Reference([](Call& call) { call.outputs[0] = Array(call.in(0).dims(), Value(1.0)); })
          .CannotFail();
  for (D d : kEveryWidth) {
    if (d != D::kString) {
      record.Call({Any(d, {3, 5})});
    }
  }
}

void AddRange(Suite& suite) {
  OpRecord& record = suite.Op("Range").Reference(Range).Tolerance(1e-15);
  const auto call = [&record](D d, double start, double limit, double delta) {
    record.Call({Make(d, {}, {start}), Make(d, {}, {limit}), Make(d, {}, {delta})});
  };
  for (D d : {D::kFloat32, D::kFloat64, D::kHalf, D::kBfloat16}) {
    call(d, 0, 0.3, 0.1);
    call(d, 1, 0, -0.1);
    call(d, -1, 1, 0.3);
    call(d, 2040, 2060, 1);
    call(d, 1, 1500, 3);
    call(d, 0, 1, kInfinity);
  }
  for (D d : {D::kFloat32, D::kFloat64, D::kInt32, D::kInt64, D::kHalf, D::kBfloat16, D::kInt8, D::kInt16}) {
    record.Call({Make(d, {}, {1}), Make(d, {}, {7}), Make(d, {}, {2})})
        .Call({Make(d, {}, {5}), Make(d, {}, {0}), Make(d, {}, {-2})})
        .Call({Make(d, {}, {5}), Make(d, {}, {5}), Make(d, {}, {1})});
  }
  for (D d : {D::kUint16, D::kUint32, D::kUint64}) {
    record.Call({Make(d, {}, {1}), Make(d, {}, {7}), Make(d, {}, {2})});
  }
  record.Hostile({Int(0), Int(5), Int(0)}, "delta != 0")
      .Hostile({Int(5), Int(0), Int(1)}, "start <= limit")
      .Hostile({Int(0), Int(5), Int(-1)}, "start >= limit")
      .Hostile({L(kShortest), L(kLongest), L(1)}, "cannot be represented")
      .Hostile({Float(0), Float(1e30), Float(1)}, "represented")
      .Hostile({Float(-3e38), Float(3e38), Float(1e30)}, "represented")
      .Hostile({Float(0), Float(std::nan("")), Float(1)}, "represented")
      .Hostile({Ints({0, 1}), Int(5), Int(1)}, "each must be a scalar")
      .OutOfMemory({L(0), L(kLongest / 2), L(1)});
}

void AddShape(Suite& suite) {
  OpRecord& record = suite.Op("Shape").Reference([](Call& call) {
    for (size_t i = 0; i < call.inputs.size(); ++i) call.outputs[i] = Vector(call.inputs[i].dims());
  });
  for (D out : {D::kInt32, D::kInt64}) {
    for (const Tensor& t : {Floats({2, 3}), Floats({}), Floats({0, 4}), Strings({2}, {"a", "b"})}) {
      record.Call({t}, {{"out_type", out}});
    }
  }
  record.Hostile({Empty({kWide, 0})}, "does not fit in int32");
}

void AddShapeN(Suite& suite) {
  OpRecord& record = suite.Op("ShapeN").Reference([](Call& call) {
    for (size_t i = 0; i < call.inputs.size(); ++i) call.outputs[i] = Vector(call.inputs[i].dims());
  });
  for (D out : {D::kInt32, D::kInt64}) {
    record.Call({std::vector<Tensor>{Floats({2, 3}), Floats({}), Floats({5})}}, {{"out_type", out}});
  }
  record.Hostile({std::vector<Tensor>{Floats({1}), Empty({kWide, 0})}}, "does not fit in int32");
}

void AddSize(Suite& suite) {
  OpRecord& record =
      suite.Op("Size")
          .Reference([](Call& call) { call.outputs[0] = Scalar(static_cast<double>(call.in(0).size())); })
          .CannotFail();
  for (D out : {D::kInt32, D::kInt64}) {
    for (const Tensor& t : {Floats({2, 3}), Floats({}), Floats({0, 4}), Strings({2}, {"a", "b"})}) {
      record.Call({t}, {{"out_type", out}});
    }
  }
}

void AddRank(Suite& suite) {
  OpRecord& record = suite.Op("Rank")
                         .Reference([](Call& call) { call.outputs[0] = Scalar(call.in(0).rank()); })
                         .CannotFail();
  for (const Tensor& t : {Floats({2, 3}), Floats({}), Floats({0, 4, 1})}) {
    record.Call({t});
  }
}

void ToBool(Call& call) {
  const Array& input = call.in(0);
  const bool is_scalar = input.rank() == 0;
  call.outputs[0] = Scalar(is_scalar ? !input[0].is_zero() || !input[0].text.empty() : input.size() > 0);
}

void AddToBool(Suite& suite) {
  OpRecord& record = suite.Op("ToBool").Reference(ToBool);
  for (D d : Join({kOrdered, {D::kBool}})) {
    for (double value : {0, 1}) record.Call({Make(d, {}, {value})});
    record.Call({Make(d, {2}, {0, 0})}).Call({Tensor(d, {2, 0})});
  }
  record.Call({Float(-0.0)})
      .Call({Float(std::nan(""))})
      .Call({Strings({}, {""})})
      .Call({Strings({}, {"0"})})
      .Call({Strings({1}, {""})})
      .Call({Sample(D::kComplex64, {1})})
      .Hostile({Sample(D::kComplex64, {})}, "complex64 cannot be converted to a boolean")
      .Hostile({HandleOf(Floats({1}))}, "resource cannot be converted to a boolean");
}

// session/device_index_test.cc has names of devices that there are.
void AddDeviceIndex(Suite& suite) {
  using Names = std::vector<std::string>;
  suite.Op("DeviceIndex")
      .Reference([](Call& call) {
        call.outputs[0] = Scalar(static_cast<double>(call.node.attr<Names>("device_names").size()));
      })
      .Call({}, {{"device_names", Names{"TPU", "/device:CPU:0"}}})
      .Call({}, {{"device_names", Names()}})
      .CannotFail();
}

void AddReshape(Suite& suite) {
  OpRecord& record = suite.Op("Reshape").Reference(Reshape);
  record.Call({Floats({2, 6}), Ints({3, 4})})
      .Call({Floats({2, 6}), Ints({-1, 3})})
      .Call({Floats({1, 1}), Ints({})})
      .Call({Floats({0, 3}), Longs({3, -1})})
      .Call({Floats({0, 28, 28}), Ints({0, -1})})
      .Call({Floats({0, 3}), Ints({-1, 0})})
      .Call({Floats({0}), Ints({0, -1})})
      .Call({Floats({4, 0, 6}), Ints({0, -1, 5})})
      .Call({Floats({0, 0, 5}), Longs({-1, 0, 0})})
      .Call({Any(D::kString, {2, 2}), Ints({4})})
      .Hostile({Floats({2, 3}), Ints({4})}, "6 values")
      .Hostile({Floats({2, 3}), Ints({-1, -1})}, "only one dimension may be -1")
      .Hostile({Floats({2, 3}), Ints({-1, 0})}, "6 values")
      .Hostile({Floats({2, 3}), Ints({-1, 4})}, "6 values")
      .Hostile({Floats({2, 3}), Ints({-2, -3})}, "6 values")
      .Hostile({Floats({2, 3}), Longs({kShortest, -1})}, "6 values")
      .Hostile({Floats({0}), Longs({kLongest, kLongest, 0})}, "0 values")
      .Hostile({Floats({0}), Longs({-1, 0, -1})}, "only one dimension may be -1")
      .Hostile({Floats({}), Ints({-1, 0})}, "1 values")
      .Hostile({Floats({2, 3}), Sample(D::kInt32, {2, 3})}, "shape must be a vector")
      .Hostile({Floats({1}), Make(D::kInt32, {300}, std::vector<double>(300, 1))}, "at most 254");
}

void AddExpandDims(Suite& suite) {
  OpRecord& record = suite.Op("ExpandDims").Reference(ExpandDims);
  for (int axis : {0, 1, 2, -1, -3}) {
    record.Call({Floats({2, 3}), Int(axis)});
  }
  record.Call({Floats({}), Tensor::Scalar<int64_t>(0)})
      .Hostile({Floats({2}), Int(2)}, "dim = 2 is not in [-2, 2)")
      .Hostile({Floats({2}), L(kShortest)}, "is not in [-2, 2)")
      .Hostile({Floats({2}), Ints({})}, "dim must be a scalar");
}

void AddSqueeze(Suite& suite) {
  OpRecord& record = suite.Op("Squeeze").Reference(Squeeze);
  record.Call({Floats({1, 2, 1, 3})})
      .Call({Floats({1, 2, 1, 3})}, {{"squeeze_dims", std::vector<int64_t>{-2}}})
      .Hostile({Floats({1, 2})}, "dimension of 1", {{"squeeze_dims", List{1}}})
      .Hostile({Floats({1, 2})}, "squeeze_dims = -3 is not in [-2, 2)", {{"squeeze_dims", List{-3}}});
}

void ConjugateTranspose(Call& call) {
  Transpose(call);
  for (int64_t i = 0; i < call.outputs[0].size(); ++i) {
    Value& value = call.outputs[0][i];
    value.number = std::conj(value.number);
  }
}

void AddConjugateTranspose(Suite& suite) {
  OpRecord& record = suite.Op("ConjugateTranspose").Reference(ConjugateTranspose);
  for (const D d : kEveryWidth) record.Call({Any(d, {3, 4}), Ints({1, 0})});
  record.Call({Floats({2, 3, 4}), Longs({2, 0, 1})}).Call({Floats({}), Ints({})});
  record.NoGradient();  // complex
  for (const D d : kComplexes) {
    record.Call({Sample(d, {2, 3, 4}), Ints({0, 2, 1})}).Call({Sample(d, {2, 3}), Ints({0, 1})});
    record.Call({Sample(d, {0, 3}), Ints({1, 0})});
  }
  record.Hostile({Sample(D::kComplex64, {2, 3}), Ints({0, 0})}, "permutation");
  record.Hostile({Floats({2, 3}), Ints({0, 2})}, "perm[1] = 2 is not in [-2, 2)");
  record.Hostile({Floats({2, 3}), Ints({0})}, "perm must have one element per dimension");
}

void AddTranspose(Suite& suite) {
  OpRecord& record = suite.Op("Transpose").Reference(Transpose);
  for (D d : kEveryWidth) {
    record.Call({Any(d, {3, 4}), Ints({1, 0})});
  }
  for (const std::vector<int32_t>& perm :
       std::vector<std::vector<int32_t>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}}) {
    record.Call({Floats({2, 3, 4}), Ints(perm)});
  }
  record.Call({Floats({33, 50}), Longs({1, 0})})
      .Call({Floats({2, 3, 20, 20}), Ints({0, 2, 3, 1})})
      .Call({Floats({}), Ints({})})
      .Hostile({Floats({2, 3}), Ints({0, 0})}, "permutation")
      .Hostile({Floats({2, 3}), Ints({0, 2})}, "perm[1] = 2 is not in [-2, 2)")
      .Hostile({Floats({2, 3}), Longs({0, kShortest})}, "perm[1]")
      .Hostile({Floats({2, 3}), Ints({0})}, "perm must have one element per dimension");
}

void AddInvertPermutation(Suite& suite) {
  OpRecord& record = suite.Op("InvertPermutation").Reference(InvertPermutation);
  record.Call({Ints({2, 0, 3, 1})})
      .Call({Longs({1, 0})})
      .Hostile({Ints({0, 2})}, "x[1] = 2 is not in [0, 2)")
      .Hostile({Ints({0, -1})}, "x[1] = -1")
      .Hostile({Ints({1, 1})}, "duplicated")
      .Hostile({Sample(D::kInt32, {2, 2})}, "x must be a vector");
}

void AddCast(Suite& suite) {
  const std::vector<D> dtypes = {D::kFloat32,  D::kFloat64, D::kInt32,     D::kInt64,      D::kHalf,
                                 D::kBfloat16, D::kInt8,    D::kUint8,     D::kInt16,      D::kUint16,
                                 D::kUint32,   D::kUint64,  D::kComplex64, D::kComplex128, D::kBool};
  OpRecord& record =
      suite.Op("Cast")
          .Reference(Cast)
          .CannotFail()
          .NoKernelFor("SrcT", {DType::kString}, "numbers are read from text by StringToNumber")
          .NoKernelFor("DstT", {DType::kString}, "numbers are written as text by AsString");
  for (D from : dtypes) {
    for (D to : dtypes) {
      record.Call({.attrs = {{"DstT", to}},
                   .inputs = {Sample(from, {2, 9}, 0, 100)},
                   .check_gradient = IsFloating(to) && !IsComplex(from)});
    }
  }
  record.Call({Make(D::kFloat32, {4}, {-1.9, 1.9, -0.5, -7})}, {{"DstT", D::kInt32}});
  record.NoGradient();
  for (const D d : {DType::kQint8, DType::kQuint8, DType::kQint32, DType::kQint16, DType::kQuint16}) {
    record.Call({Sample(D::kFloat32, {5}, 0, 100)}, {{"DstT", d}});
    record.Call({Sample(d, {5}, 0, 100)}, {{"DstT", D::kFloat32}});
  }
}

}  // namespace

void AddTensorsRecords(Suite& suite) {
  AddConst(suite);
  AddIdentity(suite);
  AddIdentityN(suite);
  AddStopGradient(suite);
  AddPlaceholderWithDefault(suite);
  AddPlaceholder(suite);
  AddNoOp(suite);
  AddFill(suite);
  AddEmpty(suite);
  AddZerosLike(suite);
  AddOnesLike(suite);
  AddRange(suite);
  AddShape(suite);
  AddShapeN(suite);
  AddSize(suite);
  AddRank(suite);
  AddToBool(suite);
  AddDeviceIndex(suite);
  AddReshape(suite);
  AddExpandDims(suite);
  AddSqueeze(suite);
  AddTranspose(suite);
  AddConjugateTranspose(suite);
  AddInvertPermutation(suite);
  AddCast(suite);
}

}  // namespace weir::conformance
