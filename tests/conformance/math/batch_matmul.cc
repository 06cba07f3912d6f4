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

// Whole numbers of 8 bits by each other and by bfloat16.
void AddTwoTypes(Suite& suite) {
  OpRecord& record = suite.Op("BatchMatMulV3")
                         .SomeCombinationsOnly("TensorFlow has none for other pairs either")
                         .NoGradient();  // which TensorFlow cannot build
  const auto call = [&record](DType x, DType y, DType z) {
    const double most = z == DType::kBfloat16 ? 6 : 100;
    const auto numbers = [most](DType d, List dims, int seed) {
      // Sums of those of bfloat16 are whole numbers that it has.
      const double low = IsUnsigned(d) ? 0 : -most;
      return Sample(d, std::move(dims), low, most, seed);
    };
    for (const bool adjoint : {false, true}) {
      record.Call({numbers(x, adjoint ? List{2, 4, 3} : List{2, 3, 4}, 1),
                   numbers(y, adjoint ? List{5, 4} : List{4, 5}, 2)},
                  {{"Tout", z}, {"adj_x", adjoint}, {"adj_y", adjoint}});
    }
  };
  for (const DType byte : {DType::kInt8, DType::kUint8}) {
    for (const DType other : {DType::kInt8, DType::kUint8}) call(byte, other, DType::kInt32);
    record.Tolerance(ToleranceOf(DType::kBfloat16));
    call(byte, DType::kBfloat16, DType::kBfloat16);
    call(DType::kBfloat16, byte, DType::kBfloat16);
  }
}

}  // namespace

void AddBatchMatmulRecords(Suite& suite) {
  const auto f = [](List dims, int seed = 1) {
    return Sample(DType::kFloat32, std::move(dims), -1, 1, seed);
  };
  for (const std::string op : {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}) {
    OpRecord& record = suite.Op(op).Reference(BatchMatMul);
    const auto with_type = [&op](DType d, AttrMap attrs = {}) {
      if (op == "BatchMatMulV3") attrs["Tout"] = d;
      return attrs;
    };
    const AttrMap of_floats = with_type(DType::kFloat32);
    std::vector<DType> dtypes = Join({kInexact, {DType::kInt32, DType::kInt64}});
    if (op == "BatchMatMulV2") {
      dtypes = Join({dtypes, {DType::kInt16, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}});
    }
    for (DType d : dtypes) {
      const double low = IsUnsigned(d) ? 0 : -1;
      record.Tolerance(ToleranceOf(d))
          .Call({Sample(d, {2, 3, 4}, low, 2, 1), Sample(d, {2, 4, 5}, low, 2, 2)}, with_type(d));
    }
    record.Tolerance(1e-5);
    for (DType d : {DType::kFloat32, DType::kComplex64}) {
      for (bool adj_x : {false, true}) {
        for (bool adj_y : {false, true}) {
          const AttrMap attrs = with_type(d, {{"adj_x", adj_x}, {"adj_y", adj_y}});
          record.Call({Sample(d, adj_x ? List{3, 4, 2} : List{3, 2, 4}, -1, 1, 1),
                       Sample(d, adj_y ? List{3, 5, 4} : List{3, 4, 5}, -1, 1, 2)},
                      attrs);
        }
      }
    }
    record.Call({f({3, 4}), f({4, 2}, 2)}, of_floats).Call({f({2, 2, 3, 4}), f({2, 2, 4, 2}, 2)}, of_floats);
    record.Call({f({0, 3, 4}), f({0, 4, 2})}, of_floats)
        .Call({f({2, 3, 0}), f({2, 0, 2})}, of_floats)
        .Call({f({2, 0, 4}), f({2, 4, 2})}, of_floats);
    record.Hostile({f({2, 3, 4}), f({2, 3, 4})}, "inner dimensions differ", of_floats);
    record.Hostile({f({2, 3, 4}), f({3, 4, 2})}, "batch dimensions differ", of_floats);
    record.Hostile({f({3}), f({3})}, "must have matrices", of_floats);
    const int64_t wide = int64_t{1} << 40;
    const auto empty = [](List dims) { return Tensor(DType::kFloat32, Shape(absl::MakeConstSpan(dims))); };
    record.Hostile({empty({wide, 0}), empty({0, wide})}, "no shape has the dimensions", of_floats);
    record.OutOfMemory({empty({wide, 0}), empty({0, 2})}, of_floats);
  }
  for (const std::string op : {"BatchMatMulV2", "BatchMatMulV3"}) {
    AttrMap attrs;
    if (op == "BatchMatMulV3") attrs["Tout"] = DType::kFloat32;
    suite.Op(op)
        .Call({f({5, 1, 2, 3}), f({4, 3, 2}, 2)}, attrs)
        .Call({f({2, 3}), f({5, 3, 4}, 2)}, attrs)
        .Call({f({5, 2, 3}), f({3, 4}, 2)}, attrs)
        .Call({f({1, 2, 3}), f({4, 3, 2}, 2)}, attrs)
        .Call({f({70, 2, 3}), f({1, 3, 2}, 2)}, attrs);
  }
  suite.Op("BatchMatMul").Hostile({f({1, 2, 3}), f({4, 3, 2})}, "batch dimensions differ");
  AddTwoTypes(suite);
}

}  // namespace weir::conformance
