// Positions in sorted rows, by counting.
#include <cmath>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;

// Each value's number of elements that are below it or, where `counts_equal`, not above it.
reference::Reference CountInRow(bool counts_equal) {
  return [counts_equal](reference::Call& call) {
    const Array &sorted = call.in(0), &values = call.in(1);
    call.outputs[0] = Generate(values.dims(), [&](const Index& at) {
      const double value = values.at(at).real();
      int count = 0;
      for (int64_t i = 0; i < sorted.dim(1); ++i) {
        const double element = sorted.at({at[0], i}).real();
        if (element < value || (counts_equal && element == value)) ++count;
      }
      return Value(count);
    });
  };
}

}  // namespace

void AddSortedSearchRecords(Suite& suite) {
  for (const bool is_upper : {false, true}) {
    OpRecord& search = suite.Op(is_upper ? "UpperBound" : "LowerBound");
    search.Reference(CountInRow(is_upper))
        .NoKernelFor("T", Join({kComplexes, {D::kBool, D::kString}}), "TensorFlow has none either");
    for (const D d : kOrdered) {
      const Tensor sorted = Make(d, {2, 5}, {1, 2, 2, 2, 7, 0, 0, 3, 3, 4});
      const Tensor values = Make(d, {2, 6}, {0, 1, 2, 3, 7, 9, 4, 0, 1, 3, 9, 5});
      for (const D out : {D::kInt32, D::kInt64}) search.Call({sorted, values}, {{"out_type", out}});
    }
    search
        .Call({Make(D::kFloat32, {1, 4}, {-INFINITY, -1, 1, INFINITY}),
               Make(D::kFloat32, {1, 4}, {-INFINITY, INFINITY, 0, -0.0})})
        .Call({Empty({2, 0}), Floats({2, 3})})
        .Call({Floats({2, 3}), Empty({2, 0})})
        .Call({Empty({0, 3}), Empty({0, 2})})
        .Hostile({Floats({3}), Floats({1, 3})},
                 "Shape must be rank 2 but is rank 1 for `sorted_inputs` argument")
        .Hostile({Floats({1, 3}), Floats({})}, "Shape must be rank 2 but is rank 0 for `values` argument")
        .Hostile({Floats({2, 3}), Floats({1, 3})}, "Leading dim_size of both tensors must match")
        .Hostile({Empty({0, int64_t{1} << 40}), Empty({0, 2})}, "do not fit in int32");
  }
}

}  // namespace weir::conformance
