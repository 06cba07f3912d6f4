#include <cmath>
#include <functional>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;
using reference::Index;
using reference::Value;

// Where in `tensor` element `at` of the slices that `indices` name comes from; false for a slice outside.
bool FindElement(const Array& tensor, const Array& indices, const Index& at, Index* found) {
  const int outer = indices.rank() - 1;
  const int64_t depth = indices.dim(outer);
  found->clear();
  for (int64_t d = 0; d < depth; ++d) {
    Index coordinate(at.begin(), at.begin() + outer);
    coordinate.push_back(d);
    found->push_back(indices.at(coordinate).integer());
    if (found->back() < 0 || found->back() >= tensor.dim(static_cast<int>(d))) return false;
  }
  found->insert(found->end(), at.begin() + outer, at.end());
  return true;
}

void GatherNd(reference::Call& call) {
  const Array& params = call.in(0);
  const Array& indices = call.in(1);
  Index dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), params.dims().begin() + indices.dims().back(), params.dims().end());
  Array output(dims);
  Index from;
  for (int64_t i = 0; i < output.size(); ++i) {
    if (FindElement(params, indices, output.IndexOf(i), &from)) output[i] = params.at(from);
  }
  call.outputs = {output};
}

using Update = std::function<void(Value& element, const Value& update)>;

Array Scatter(Array tensor, const Array& indices, const Array& updates, const Update& update) {
  Index to;
  for (int64_t i = 0; i < updates.size(); ++i) {
    if (FindElement(tensor, indices, updates.IndexOf(i), &to)) update(tensor.at(to), updates[i]);
  }
  return tensor;
}

void AddTo(Value& element, const Value& update) {
  element.number += update.number;
  element.text += update.text;
}

void ScatterNd(reference::Call& call) {
  call.outputs = {Scatter(Array(call.in(2).integers()), call.in(0), call.in(1), AddTo)};
}

reference::Reference ScatterWith(Update update) {
  return [update](reference::Call& call) {
    call.outputs = {Scatter(call.in(0), call.in(1), call.in(2), update)};
  };
}

Tensor Matrix(std::vector<int64_t> dims, std::vector<double> values, DType d = DType::kInt32) {
  return Make(d, std::move(dims), std::move(values));
}
Tensor Of(DType d, std::vector<int64_t> dims, int seed = 1) {
  return Sample(d, std::move(dims), IsUnsigned(d) ? 0 : -4, 4, seed);
}

void AddGatherNd(Suite& suite) {
  OpRecord& gather = suite.Op("GatherNd").Reference(GatherNd);
  for (DType d : Join({kNumbers, {DType::kBool}})) gather.Call({Of(d, {4, 3}), Matrix({2, 2}, {3, 0, 0, 2})});
  gather.Call({Strings({3}, {"a", "b", "c"}), Matrix({2, 1}, {2, 2})})
      .Call({Floats({4, 3}), Matrix({3, 1}, {3, 0, 3}, DType::kInt64)})
      .Call({Floats({4, 3}), Matrix({3, 1}, {3, 0, 3}, DType::kInt16)})
      .Call({Floats({2, 3, 2}), Matrix({2, 2, 2}, {1, 2, 0, 0, 1, 0, 1, 2})})
      .Call({Floats({2, 3}), Matrix({2}, {1, 1})})  // one element
      .Call({Floats({0, 3}), Matrix({0, 2}, {})})
      .Call({Floats({4, 3}), Matrix({3, 2}, {3, 0, 4, 0, 0, -1})}, {{"bad_indices_policy", "IGNORE"}})
      .Call({Floats({2, 3}), Matrix({2, 0}, {})}, {{"bad_indices_policy", "ERROR"}})
      .Hostile({Floats({2, 3}), Matrix({1, 2}, {2, 0})},
               "indices[0] = [2,0] does not index into param shape [2,3]")
      .Hostile({Floats({2, 3}), Matrix({2, 1}, {0, -1})},
               "indices[1] = [-1] does not index into param shape [2,3]")
      .Hostile({Floats({3}), Make(DType::kInt32, {1, 2, 1}, {0, 7})},
               "indices[0,1] = [7] does not index into param shape [3]")
      .Hostile({Floats({0, 3}), Matrix({1, 1}, {0})}, "does not index into param shape [0,3]")
      .Hostile({Floats({2}), Matrix({1, 2}, {0, 0})}, "indices have 2 coordinates for 1 dimensions")
      .Hostile({Floats({2}), Int(0)}, "indices must be at least a vector")
      .Hostile({Floats({}), Matrix({1, 0}, {})}, "params must be at least a vector")
      .Hostile({Floats({2}), Matrix({1, 1}, {0})}, "bad_indices_policy must be",
               {{"bad_indices_policy", "x"}});
}

void AddScatterNd(Suite& suite) {
  OpRecord& scatter = suite.Op("ScatterNd").Reference(ScatterNd);
  for (DType d : Join({kNumbers, {DType::kBool}})) {
    scatter.Call({Matrix({3, 1}, {1, 3, 1}), Of(d, {3}), Ints({4})});
  }
  scatter.Call({Matrix({3, 1}, {1, 0, 1}), Strings({3}, {"a", "b", "c"}), Ints({3})})
      .Call({Matrix({2, 1}, {2, 0}), Floats({2, 3}), Ints({4, 3})})
      .Call({Matrix({2, 1}, {2, 0}, DType::kInt64), Floats({2, 3}), Longs({4, 3})})
      .Call({Matrix({2, 1}, {2, 0}, DType::kInt16), Floats({2}), Make(DType::kInt16, {1}, {4})})
      .Call({Matrix({2, 2, 2}, {1, 2, 0, 0, 1, 0, 1, 2}), Floats({2, 2, 2}), Ints({2, 3, 2})})
      .Call({Matrix({1}, {1}), Floats({3}), Ints({2, 3})})
      .Call({Matrix({0, 1}, {}), Floats({0, 3}), Ints({2, 3})})
      .Call({Matrix({0, 1}, {}), Floats({0}), Ints({0})})
      .Call({Matrix({3, 1}, {3, -1, 1}), Floats({3}), Ints({3})}, {{"bad_indices_policy", "IGNORE"}})
      .Hostile({Matrix({1, 1}, {3}), Floats({1}), Ints({3})},
               "indices[0] = [3] does not index into shape [3]")
      .Hostile({Matrix({1, 1}, {-1}), Floats({1}), Ints({3})},
               "indices[0] = [-1] does not index into shape [3]")
      .Hostile({Matrix({1, 1}, {0}), Floats({2}), Ints({3})},
               "updates must be [1] for indices [1,1] into [3], is [2]")
      .Hostile({Matrix({1, 1}, {0}), Floats({1, 2}), Ints({3, 3})}, "updates must be [1,3]")
      .Call({Matrix({1}, {1}), Floats({}), Ints({3})})
      .Call({Matrix({2, 0}, {}), Floats({2, 3}), Ints({3})})
      .Call({Matrix({1, 1}, {0}), Floats({1, 0}), Ints({3, 0})})
      .Hostile({Int(0), Floats({1}), Ints({3})}, "indices must be at least a vector")
      .Hostile({Matrix({1, 2}, {0, 0}), Floats({1}), Ints({3})},
               "indices have 2 coordinates for 1 dimensions")
      .Hostile({Matrix({1, 1}, {0}), Floats({1}), Ints({-3})}, "shape")
      .Hostile({Matrix({1, 1}, {0}), Floats({1}), Int(3)}, "shape must be a vector")
      .Hostile({Matrix({1, 1}, {0}, DType::kInt64), Floats({1}), Longs({int64_t{1} << 62, 4})}, "shape")
      .OutOfMemory({Matrix({1, 1}, {0}, DType::kInt64), Floats({1}), Longs({int64_t{1} << 40})});
}

// `dtypes`: those that the op has kernels for.
OpRecord& AddUpdating(Suite& suite, const std::string& op, const std::vector<DType>& dtypes,
                      const Update& update) {
  OpRecord& record = suite.Op(op).Reference(ScatterWith(update));
  for (DType d : dtypes) record.Call({Of(d, {4}), Matrix({2, 1}, {1, 3}), Of(d, {2}, 2)});
  record.Call({Floats({4, 3}), Matrix({2, 1}, {2, 0}), Floats({2, 3}, 2)})
      .Call({Floats({4, 3}), Matrix({2, 2}, {2, 0, 3, 1}, DType::kInt64), Floats({2}, 2)})
      .Call({Floats({2, 3}), Matrix({0, 1}, {}), Floats({0, 3})})
      .Call({Floats({3}), Matrix({3, 1}, {3, -1, 1}), Floats({3}, 2)}, {{"bad_indices_policy", "IGNORE"}})
      .Hostile({Floats({3}), Matrix({1, 1}, {3}), Floats({1})},
               "indices[0] = [3] does not index into shape [3]")
      .Hostile({Floats({3}), Matrix({1, 1}, {0}), Floats({2})}, "updates must be [1]")
      .Hostile({Floats({3}), Int(0), Floats({1})}, "indices must be at least a vector")
      .Call({Of(DType::kInt32, {}), Matrix({1, 0}, {}), Of(DType::kInt32, {1})})
      .Hostile({Floats({3}), Matrix({1, 1}, {0}), Floats({1})}, "bad_indices_policy",
               {{"bad_indices_policy", "x"}})
      .Call({Floats({4}), Matrix({1}, {1}), Floats({})});
  return record;
}

// The element before which as many elements of the last dimensions lie as the index counts.
void UnravelIndex(reference::Call& call) {
  const Array &indices = call.in(0), &dims = call.in(1);
  Index shape = {dims.size()};
  shape.insert(shape.end(), indices.dims().begin(), indices.dims().end());
  call.outputs[0] = Array(shape);
  const Array whole(dims.integers());
  for (int64_t i = 0; i < indices.size(); ++i) {
    const Index at = whole.IndexOf(indices[i].integer());
    for (size_t d = 0; d < at.size(); ++d) {
      call.outputs[0][static_cast<int64_t>(d) * indices.size() + i] = static_cast<double>(at[d]);
    }
  }
}

void AddUnravelIndex(Suite& suite) {
  OpRecord& record = suite.Op("UnravelIndex").Reference(UnravelIndex);
  for (DType d : {DType::kInt32, DType::kInt64}) {
    record.Call({Make(d, {}, {22}), Make(d, {2}, {7, 6})})
        .Call({Make(d, {3}, {22, 41, 37}), Make(d, {2}, {7, 6})})
        .Call({Make(d, {2}, {1621, 0}), Make(d, {4}, {6, 7, 8, 9})})
        .Call({Make(d, {}, {4}), Make(d, {1}, {5})});
  }
  record.Call({Int(0), Tensor(DType::kInt32, {0})})
      .Hostile({Ints({1, 42}), Ints({7, 6})}, "index is out of bound as with dims")
      .Hostile({Int(-1), Ints({7, 6})}, "index is out of bound as with dims: indices[0] is -1")
      .Hostile({Int(kHuge), Ints({kHuge})}, "index is out of bound")
      .Hostile({Int(1), Tensor(DType::kInt32, {0})}, "index is out of bound")
      .Hostile({Make(DType::kInt32, {1, 1}, {1}), Ints({7})}, "The indices can only be scalar or vector")
      .Hostile({Int(1), Int(7)}, "The indices can only be 1-D")
      .Hostile({Int(1), Ints({0, 6})}, "dims contains zero at index 0")
      .Hostile({Int(1), Ints({6, -1})}, "Got dim = -1 at index 1")
      .Hostile({Ints({}), Ints({7})}, "received empty tensor indices");
}

}  // namespace

void AddCoordinatesRecords(Suite& suite) {
  AddUnravelIndex(suite);
  AddGatherNd(suite);
  AddScatterNd(suite);
  const auto twice = std::vector<CaseInput>{Floats({4, 3}), Matrix({3, 1}, {1, 1, 0}), Floats({3, 3}, 2)};
  const std::vector<DType> with_bool = Join({kNumbers, {DType::kBool}});
  const auto subtract = [](Value& element, const Value& update) { element.number -= update.number; };
  const auto assign = [](Value& element, const Value& update) { element = update; };
  const auto lower = [](Value& element, const Value& update) {
    if (update.real() < element.real()) element = update;
  };
  const auto raise = [](Value& element, const Value& update) {
    if (update.real() > element.real()) element = update;
  };
  const std::vector<DType> texts = {DType::kString}, no_numbers = {DType::kBool, DType::kString};
  const char* const as_in_tensorflow = "as in TensorFlow";

  AddUpdating(suite, "ScatterNdNonAliasingAdd", with_bool, AddTo).Call(twice);
  AddUpdating(suite, "TensorScatterAdd", kNumbers, AddTo)
      .Call(twice)
      .NoKernelFor("T", no_numbers, as_in_tensorflow);
  AddUpdating(suite, "TensorScatterSub", kNumbers, subtract)
      .Call(twice)
      .NoKernelFor("T", no_numbers, as_in_tensorflow);
  for (const auto& [op, update] :
       {std::pair("TensorScatterMin", Update(lower)), {"TensorScatterMax", Update(raise)}}) {
    AddUpdating(suite, op, kOrdered, update)
        .Call(twice)
        .NoKernelFor("T", Join({kComplexes, no_numbers}), as_in_tensorflow)
        .NoGradient()
        .Call({Make(DType::kFloat32, {3}, {1, std::nan(""), INFINITY}), Matrix({3, 1}, {0, 1, 2}),
               Make(DType::kFloat32, {3}, {std::nan(""), 1, -INFINITY})});
  }
  AddUpdating(suite, "TensorScatterUpdate", with_bool, assign)
      .Call({Strings({2}, {"a", "b"}), Matrix({1, 1}, {1}), Strings({1}, {"c"})})
      .Call({Floats({4}), Matrix({1, 1}, {1}, DType::kUint16), Floats({1}, 2)})
      .NoGradient()  // what was written over gets the gradient of what was written, as in TensorFlow
      .Call(twice);
}

}  // namespace weir::conformance
