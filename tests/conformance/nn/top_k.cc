// The largest elements of the rows of a tensor.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

// Places of the dimension are chosen one after another, by the greatest of `sign` times what they hold.
void ChooseK(reference::Call& call, double sign) {
  const Array& x = call.in(0);
  const int64_t k = call.inputs.size() == 1 ? call.integer("k") : call.in(1)[0].integer();
  const int last = x.rank() - 1;
  Index dims = x.dims();
  dims[last] = k;
  call.outputs[0] = call.outputs[1] = Array(dims);
  ForEachSlice(x, last, [&](Index at) {
    std::vector<bool> taken(x.dim(last), false);
    for (int64_t i = 0; i < k; ++i) {
      int64_t best = -1;
      for (int64_t j = 0; j < x.dim(last); ++j) {
        at[last] = j;
        Index of_best = at;
        of_best[last] = best;
        if (!taken[j] && (best < 0 || sign * x.at(at).real() > sign * x.at(of_best).real())) best = j;
      }
      taken[best] = true;
      Index from = at, to = at;
      from[last] = best;
      to[last] = i;
      call.outputs[0].at(to) = x.at(from);
      call.outputs[1].at(to) = static_cast<double>(best);
    }
  });
}

void TopK(reference::Call& call) { ChooseK(call, 1); }
void ApproxTopK(reference::Call& call) { ChooseK(call, call.flag("is_max_k") ? 1 : -1); }

void NthElement(reference::Call& call) {
  const Array& x = call.in(0);
  const int last = x.rank() - 1;
  Index dims = x.dims();
  dims.pop_back();
  call.outputs[0] = Array(dims);
  ForEachSlice(x, last, [&](Index at) {
    std::vector<double> row;
    for (at[last] = 0; at[last] < x.dim(last); ++at[last]) row.push_back(x.at(at).real());
    std::sort(row.begin(), row.end());
    if (call.flag("reverse")) std::reverse(row.begin(), row.end());
    at.pop_back();
    call.outputs[0].at(at) = row[call.in(1)[0].integer()];
  });
}

void AddNthElement(Suite& suite) {
  OpRecord& record = suite.Op("NthElement").Reference(NthElement);
  for (DType d : kOrdered) record.Call({Sample(d, {2, 9}, IsUnsigned(d) ? 0 : -9, 9), Int(3)});
  const auto f = [](std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims)); };
  record.Call({f({2, 3, 5}), Int(0)}, {{"reverse", true}})
      .Call({f({7}), Int(6)})
      .Call({f({0, 3}), Int(1)})
      .Hostile({f({2, 3}), Int(3)}, "Input must have last dimension > n = 3")
      .Hostile({f({2, 3}), Int(-1)}, "n must be non-negative but is -1")
      .Hostile({f({2, 3}), Ints({1})}, "N must be scalar but has rank 1")
      .Hostile({f({}), Int(0)}, "Input must be at least rank 1")
      .Hostile({f({3, 0}), Int(0)}, "Input must have last dimension > n = 0");
}

void AddApproxTopK(Suite& suite) {
  OpRecord& record = suite.Op("ApproxTopK").Reference(ApproxTopK).NoGradient();
  const auto k = [](int64_t k) { return AttrMap{{"k", k}}; };
  for (DType d : {DType::kFloat32, DType::kHalf, DType::kBfloat16}) {
    record.Call({Sample(d, {2, 9}, -9, 9)}, k(3));
    record.Call({Sample(d, {3, 9}, -2, 2)}, {{"k", 4}, {"is_max_k", false}});
  }
  const auto f = [](std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims)); };
  record.Call({f({7})}, k(0))
      .Call({f({2, 3, 5})}, {{"k", 2}, {"reduction_dimension", 2}})
      .Hostile({f({2, 9})}, "k is 10", k(10))
      .Hostile({f({})}, "at least one dimension", k(0))
      .Hostile({f({2, 9})}, "reduction_dimension is 0", {{"k", 1}, {"reduction_dimension", 0}},
               absl::StatusCode::kUnimplemented)
      .Hostile({f({2, 9})}, "k is 10", {{"k", 10}, {"is_max_k", false}});
}

}  // namespace

void AddTopKRecords(Suite& suite) {
  AddNthElement(suite);
  AddApproxTopK(suite);
  const auto f = [](std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims)); };
  OpRecord& second = suite.Op("TopKV2").Reference(TopK);
  OpRecord& first = suite.Op("TopK").Reference(TopK);
  for (DType d : kOrdered) {
    const double low = IsUnsigned(d) ? 0 : -9;
    second.Call({Sample(d, {2, 9}, low, 9), Int(3)});
    first.Call({Sample(d, {2, 9}, low, 9)}, {{"k", 2}});
  }
  for (DType index : {DType::kInt16, DType::kInt64})
    second.Call({f({2, 9}), Int(4)}, {{"index_type", index}});
  // The order of more than one is anybody's if they are not to be sorted.
  second.Call({f({2, 2, 5}), Longs({1}).WithShape(Shape())}, {{"sorted", false}});
  second.Call({f({7}), Int(7)}).Call({f({7}), Int(0)}).Call({f({0, 3}), Int(2)}).Call({f({2, 0}), Int(0)});
  first.Call({f({7})}, {{"k", 0}}).Call({f({3, 7})}, {{"k", 7}});
  second.Hostile({f({2, 9}), Int(10)}, "k is 10");
  second.Hostile({f({2, 9}), Int(-1)}, "k is -1");
  second.Hostile({f({2, 9}), Ints({1, 2})}, "k must be a scalar");
  second.Hostile({f({}), Int(0)}, "at least one dimension");
  second.Hostile({f({40000}), Int(1)}, "do not fit in int16", {{"index_type", DType::kInt16}});
  first.Hostile({f({2, 9})}, "k is 10", {{"k", 10}});
}

}  // namespace weir::conformance
