// Products of batches of matrices.
#include <complex>
#include <string>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using List = std::vector<int64_t>;

Number Entry(const Array& matrices, const Index& batch, int64_t row, int64_t column, bool is_adjoint) {
  Index at = batch;
  at.push_back(is_adjoint ? column : row);
  at.push_back(is_adjoint ? row : column);
  Index own(at.end() - matrices.rank(), at.end());
  for (int i = 0; i + 2 < matrices.rank(); ++i) {
    if (matrices.dim(i) == 1) own[i] = 0;
  }
  const Number value = matrices.at(own).number;
  return is_adjoint ? std::conj(value) : value;
}

void BatchMatMul(reference::Call& call) {
  const Array &x = call.in(0), &y = call.in(1);
  const bool adj_x = call.flag("adj_x"), adj_y = call.flag("adj_y");
  const auto batch_of = [](const Array& a) { return Array(Index(a.dims().begin(), a.dims().end() - 2)); };
  const int64_t inner = x.dim(x.rank() - (adj_x ? 2 : 1));
  Index dims = BroadcastDims(batch_of(x), batch_of(y));
  dims.push_back(x.dim(x.rank() - (adj_x ? 1 : 2)));
  dims.push_back(y.dim(y.rank() - (adj_y ? 2 : 1)));
  Array& z = call.outputs[0] = Array(dims);
  for (int64_t i = 0; i < z.size(); ++i) {
    const Index at = z.IndexOf(i), batch(at.begin(), at.end() - 2);
    const int64_t row = at[at.size() - 2], column = at[at.size() - 1];
    Number sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += Entry(x, batch, row, k, adj_x) * Entry(y, batch, k, column, adj_y);
    z[i] = sum;
  }
}

double ToleranceOf(DType d) { return d == DType::kHalf ? 5e-3 : d == DType::kBfloat16 ? 4e-2 : 1e-5; }

}  // namespace

void AddBatchMatmulRecords(Suite& suite) {
  const auto f = [](List dims, int seed = 1) {
    return Sample(DType::kFloat32, std::move(dims), -1, 1, seed);
  };
  for (const std::string op : {"BatchMatMul", "BatchMatMulV2"}) {
    OpRecord& record = suite.Op(op).Reference(BatchMatMul);
    std::vector<DType> dtypes = Join({kInexact, {DType::kInt32, DType::kInt64}});
    if (op == "BatchMatMulV2") {
      dtypes = Join({dtypes, {DType::kInt16, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}});
    }
    for (DType d : dtypes) {
      const double low = IsUnsigned(d) ? 0 : -1;
      record.Tolerance(ToleranceOf(d))
          .Call({Sample(d, {2, 3, 4}, low, 2, 1), Sample(d, {2, 4, 5}, low, 2, 2)});
    }
    record.Tolerance(1e-5);
    for (DType d : {DType::kFloat32, DType::kComplex64}) {
      for (bool adj_x : {false, true}) {
        for (bool adj_y : {false, true}) {
          const AttrMap attrs = {{"adj_x", adj_x}, {"adj_y", adj_y}};
          record.Call({Sample(d, adj_x ? List{3, 4, 2} : List{3, 2, 4}, -1, 1, 1),
                       Sample(d, adj_y ? List{3, 5, 4} : List{3, 4, 5}, -1, 1, 2)},
                      attrs);
        }
      }
    }
    record.Call({f({3, 4}), f({4, 2}, 2)}).Call({f({2, 2, 3, 4}), f({2, 2, 4, 2}, 2)});
    record.Call({f({0, 3, 4}), f({0, 4, 2})})
        .Call({f({2, 3, 0}), f({2, 0, 2})})
        .Call({f({2, 0, 4}), f({2, 4, 2})});
    record.Hostile({f({2, 3, 4}), f({2, 3, 4})}, "inner dimensions differ");
    record.Hostile({f({2, 3, 4}), f({3, 4, 2})}, "batch dimensions differ");
    record.Hostile({f({3}), f({3})}, "must have matrices");
    const int64_t wide = int64_t{1} << 40;
    const auto empty = [](List dims) { return Tensor(DType::kFloat32, Shape(absl::MakeConstSpan(dims))); };
    record.Hostile({empty({wide, 0}), empty({0, wide})}, "no shape has the dimensions");
    record.OutOfMemory({empty({wide, 0}), empty({0, 2})});
  }
  OpRecord& second = suite.Op("BatchMatMulV2");
  second.Call({f({5, 1, 2, 3}), f({4, 3, 2}, 2)})
      .Call({f({2, 3}), f({5, 3, 4}, 2)})
      .Call({f({5, 2, 3}), f({3, 4}, 2)});
  second.Call({f({1, 2, 3}), f({4, 3, 2}, 2)}, {}).Call({f({70, 2, 3}), f({1, 3, 2}, 2)});
  suite.Op("BatchMatMul").Hostile({f({1, 2, 3}), f({4, 3, 2})}, "batch dimensions differ");
}

}  // namespace weir::conformance
