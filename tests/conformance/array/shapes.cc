// Shapes as tensors.
#include <algorithm>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;

void BroadcastArgs(reference::Call& call) {
  const Array &a = call.in(0), &b = call.in(1);
  Array& shape = call.outputs[0];
  shape = Array({std::max(a.size(), b.size())});
  // Counted from the back.
  for (int64_t i = 1; i <= shape.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i].integer() : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i].integer() : 1;
    shape[shape.size() - i] = static_cast<double>(x == 1 ? y : x);
  }
}

}  // namespace

void AddShapeRecords(Suite& suite) {
  suite.Op("BroadcastArgs")
      .Reference(BroadcastArgs)
      .Call({Ints({2, 1}), Ints({3})})
      .Call({Longs({3}), Longs({4, 1, 1})})
      .Call({Ints({2, 0}), Ints({1})})
      .Call({Ints({}), Ints({5, 6})})
      .Call({Ints({}), Ints({})})
      .Call({Ints({-1, 2}), Ints({1})})
      .Hostile({Ints({2, 2}), Ints({3})}, "Incompatible shapes: int32[2] {2, 2} vs. int32[1] {3}")
      .Hostile({Ints({-1, 2}), Ints({3, 1})}, "Incompatible shapes")
      .Hostile({Int(2), Ints({3})}, "s0 must be a vector, is []")
      .Hostile({Longs({2}), Sample(DType::kInt64, {1, 2})}, "s1 must be a vector, is [1,2]");
}

}  // namespace weir::conformance
