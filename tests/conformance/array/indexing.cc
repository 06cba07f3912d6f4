// Elements looked up and chosen.
#include <algorithm>

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

void GatherV2(Call& call) {
  const Array &params = call.in(0), &indices = call.in(1);
  const int axis = Call::Axis(call.in(2)[0].integer(), params.rank());
  const int batch = Call::Axis(call.integer("batch_dims"), indices.rank());
  Index dims(params.dims().begin(), params.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin() + batch, indices.dims().end());
  dims.insert(dims.end(), params.dims().begin() + axis + 1, params.dims().end());
  const int own = indices.rank() - batch;  // dimensions of the result that come from indices alone
  call.outputs[0] = Generate(dims, [&](const Index& index) {
    Index which(index.begin(), index.begin() + batch);
    which.insert(which.end(), index.begin() + axis, index.begin() + axis + own);
    Index source(index.begin(), index.begin() + axis);
    source.push_back(indices.at(which).integer());
    source.insert(source.end(), index.begin() + axis + own, index.end());
    return params.at(source);
  });
}

void OneHot(Call& call) {
  const Array& indices = call.in(0);
  const int axis = Call::Axis(call.integer("axis"), indices.rank() + 1);
  Index dims = indices.dims();
  dims.insert(dims.begin() + axis, call.in(1)[0].integer());
  call.outputs[0] = Generate(dims, [&](Index index) {
    const int64_t position = index[axis];
    index.erase(index.begin() + axis);
    return indices.at(index).integer() == position ? call.in(2)[0] : call.in(3)[0];
  });
}

void Select(Call& call) {
  const Array& condition = call.in(0);
  call.outputs[0] = Generate(call.in(1).dims(), [&](const Index& index) {
    const Index own(index.begin(), index.begin() + condition.rank());
    return condition.at(own).is_zero() ? call.in(2).at(index) : call.in(1).at(index);
  });
}

void SelectV2(Call& call) {
  int rank = 0;
  for (const Array& input : call.inputs) rank = std::max(rank, input.rank());
  Index dims(rank, 1);
  for (const Array& input : call.inputs) {
    for (int i = 0; i < input.rank(); ++i) {
      if (input.dim(i) != 1) dims[rank - input.rank() + i] = input.dim(i);
    }
  }
  const auto at = [](const Array& input, const Index& index) {
    Index own(index.end() - input.rank(), index.end());
    for (int i = 0; i < input.rank(); ++i) own[i] = input.dim(i) == 1 ? 0 : own[i];
    return input.at(own);
  };
  call.outputs[0] = Generate(dims, [&](const Index& index) {
    return at(call.in(0), index).is_zero() ? at(call.in(2), index) : at(call.in(1), index);
  });
}

void Where(Call& call) {
  const Array& input = call.in(0);
  std::vector<Index> found;
  for (int64_t i = 0; i < input.size(); ++i) {
    if (!input[i].is_zero()) found.push_back(input.IndexOf(i));
  }
  call.outputs[0] = Generate({static_cast<int64_t>(found.size()), input.rank()},
                             [&](const Index& index) { return Value(double(found[index[0]][index[1]])); });
}

void AddGatherV2(Suite& suite) {
  OpRecord& record = suite.Op("GatherV2").Reference(GatherV2);
  for (D d : Join({kEveryWidth, {DType::kQint16}})) {
    record.Call({Any(d, {4, 3}), Ints({3, 0, 3}), Int(0)});
  }
  record.Call({Floats({4, 3}), Make(D::kInt64, {2, 2}, {0, 2, 1, 1}), Int(1)})
      .Call({Floats({5}), Int(2), Int(-1)})
      .Call({Floats({2, 3, 4}), Ints({}), Tensor::Scalar<int64_t>(1)})
      .Call({Floats({2, 4, 3}), Make(D::kInt32, {2, 2}, {3, 0, 1, 1}), Int(1)}, {{"batch_dims", 1}})
      .Call({Floats({2, 3, 4}), Make(D::kInt32, {2, 2}, {3, 0, 1, 1}), Int(2)}, {{"batch_dims", -1}})
      .Call({Floats({2, 3, 4, 2}), Make(D::kInt64, {2, 3}, {3, 0, 1, 1, 1, 2}), Int(2)}, {{"batch_dims", 1}})
      .Call({Floats({2, 3, 4}), Make(D::kInt16, {2}, {2, 0}), Int(-1)})
      .Hostile({Floats({2, 3}), Make(D::kInt32, {2, 2}, {0, 1, 1, 7}), Int(0)},
               "indices[1,1] = 7 is not in [0, 2)")
      .Hostile({Floats({2, 3}), Int(-1), Int(0)}, "indices = -1 is not in [0, 2)")
      .Hostile({Floats({2, 3}), L(kShortest), Int(1)}, "is not in [0, 3)")
      .Hostile({Floats({2, 3}), Ints({0}), Int(2)}, "axis = 2 is not in [-2, 2)")
      .Hostile({Floats({0, 3}), Ints({0}), Int(0)}, "indices[0] = 0 is not in [0, 0)")
      .Hostile({Floats({}), Ints({0}), Int(0)}, "params must be at least 1 dimensional")
      .Hostile({Floats({2, 3}), Ints({0}), Int(1)}, "batch_dims", {{"batch_dims", 2}})
      .Hostile({Floats({2, 3}), Ints({0}), Int(1)}, "batch_dims", {{"batch_dims", -3}})
      .Hostile({Floats({2, 3}), Make(D::kInt32, {2, 1}, {0, 0}), Int(0)}, "batch_dims", {{"batch_dims", 1}})
      .Hostile({Floats({2, 3}), Make(D::kInt32, {3, 1}, {0, 0, 0}), Int(1)}, "params.shape[0] = 2",
               {{"batch_dims", 1}})
      .Hostile({Empty({3, 0, kWide}), Empty({kWide, 0}, D::kInt32), Int(0)}, "no shape has the dimensions")
      .OutOfMemory(
          {Tensor(D::kBool, {1, 1 << 20}), Make(D::kInt32, {1 << 10}, std::vector<double>(1 << 10)), Int(0)});
}

void AddOneHot(Suite& suite) {
  OpRecord& record = suite.Op("OneHot").Reference(OneHot);
  for (D d : kEveryWidth) {
    record.Call({Longs({1, 0, -1, 5}), Int(3), Any(d, {}, 2), Any(d, {}, 3)});
  }
  record.Call({Make(D::kInt32, {2, 2}, {0, 1, 2, 3}), Int(4), Floats({}, 2), Floats({}, 3)}, {{"axis", 0}})
      .Call({Make(D::kUint8, {2, 2}, {0, 1, 2, 3}), Int(2), Floats({}, 2), Floats({}, 3)}, {{"axis", 1}})
      .Hostile({Longs({1}), Int(-1), Floats({}), Floats({})}, "depth")
      .Hostile({Longs({1}), Int(2), Floats({2}), Floats({})}, "on_value")
      .Hostile({Longs({1}), Int(2), Floats({}), Floats({0})}, "off_value")
      .Hostile({Longs({1}), Ints({1, 2}), Floats({}), Floats({})}, "depth must be a scalar")
      .Hostile({Longs({1}), Int(2), Floats({}), Floats({})}, "axis = 2 is not in [-2, 2)", {{"axis", 2}})
      .Hostile({Empty({kLongest, 0}, D::kInt64), Int(2), Floats({}), Floats({})},
               "no shape has the dimensions")
      .OutOfMemory({Sample(D::kInt64, {4000}), Int(kHuge), Floats({}), Floats({})});
}

void AddSelect(Suite& suite) {
  OpRecord& record = suite.Op("Select").Reference(Select);
  for (D d : kEveryWidth) {
    record.Call({Sample(D::kBool, {3, 5}, -0.5, 0.5), Any(d, {3, 5}), Any(d, {3, 5}, 2)});
  }
  record.Call({Tensor::Scalar(true), Floats({2, 3}), Floats({2, 3}, 2)})
      .Call({Make(D::kBool, {2}, {0, 1}), Floats({2, 3}), Floats({2, 3}, 2)})
      .Hostile({Bools({3}, {1, 0, 1}), Floats({2}), Floats({2})}, "condition")
      .Hostile({Bools({2}, {1, 0}), Floats({2}), Floats({3})}, "[2] and [3]")
      .Hostile({Bools({2}, {1, 0}), Floats({}), Floats({})}, "condition")
      .Hostile({Bools({2, 1}, {1, 0}), Floats({2, 2}), Floats({2, 2})}, "condition")
      .Hostile({Bools({0}, {}), Floats({2}), Floats({2})}, "condition");
}

void AddSelectV2(Suite& suite) {
  OpRecord& record = suite.Op("SelectV2").Reference(SelectV2);
  for (D d : kEveryWidth) {
    record.Call({Sample(D::kBool, {3, 1}, -0.9, 0.9), Any(d, {5}), Any(d, {3, 5}, 2)});
  }
  record.Call({Make(D::kBool, {2}, {0, 1}), Floats({2}), Floats({2}, 2)})
      .Call({Tensor::Scalar(false), Floats({2, 3}), Floats({})})
      .Hostile({Bools({2}, {1, 0}), Floats({3}), Floats({})}, "Incompatible shapes: [2] vs. [3] vs. []")
      .Hostile({Bools({0}, {}), Floats({3}), Floats({})}, "Incompatible shapes: [0] vs. [3] vs. []");
}

void AddWhere(Suite& suite) {
  OpRecord& record = suite.Op("Where").Reference(Where).ShapeDependsOnValues().CannotFail();
  for (D d : {D::kBool, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64, D::kHalf, D::kUint8, D::kComplex64}) {
    record.Call({Sample(d, {3, 4}, 0, 1.4)});
  }
  record.Call({Make(D::kBool, {2, 2}, {0, 0, 0, 0})}).Call({Tensor::Scalar(true)});
}

}  // namespace

void AddIndexingRecords(Suite& suite) {
  AddGatherV2(suite);
  AddOneHot(suite);
  AddSelect(suite);
  AddSelectV2(suite);
  AddWhere(suite);
}

}  // namespace weir::conformance
