// Sparse tensors combined with sparse and dense ones, and reduced. References write them out as dense
// tensors.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

Index IndexAt(const Array& indices, int64_t i) {
  if (indices.rank() == 0) return {indices[0].integer()};
  if (indices.rank() == 1) return {indices[i].integer()};
  Index index;
  for (int64_t d = 0; d < indices.dim(1); ++d) index.push_back(indices.at({i, d}).integer());
  return index;
}

void SparseToDense(Call& call) {
  Array dense(call.in(1).integers(), call.in(3)[0]);
  const int64_t count = call.in(0).rank() == 0 ? 1 : call.in(0).dim(0);
  for (int64_t i = 0; i < count; ++i) {
    dense.at(IndexAt(call.in(0), i)) = call.in(2)[call.in(2).rank() == 0 ? 0 : i];
  }
  call.outputs[0] = dense;
}

void SparseTensorDenseAdd(Call& call) {
  call.outputs[0] = call.in(3);
  for (int64_t i = 0; i < call.in(1).size(); ++i) {
    call.outputs[0].at(IndexAt(call.in(0), i)).number += call.in(1)[i].number;
  }
}

// The union of the elements of inputs 0 to 2 and 3 to 5, each pair combined. Sums of two that `keeps` refuses
// are left out.
void Combine(Call& call, const std::function<Number(Number, Number)>& combine,
             const std::function<bool(Number)>& keeps) {
  struct Pair {
    Number first = 0, second = 0;
    int count = 0;
  };
  std::map<Index, Pair> pairs;
  for (int64_t i = 0; i < call.in(1).size(); ++i) {
    Pair& pair = pairs[IndexAt(call.in(0), i)];
    pair.first = call.in(1)[i].number;
    ++pair.count;
  }
  for (int64_t i = 0; i < call.in(4).size(); ++i) {
    Pair& pair = pairs[IndexAt(call.in(3), i)];
    pair.second = call.in(4)[i].number;
    ++pair.count;
  }
  std::vector<Index> indices;
  std::vector<Number> values;
  for (const auto& [index, pair] : pairs) {
    const Number value = combine(pair.first, pair.second);
    if (pair.count == 2 && !keeps(value)) continue;
    indices.push_back(index);
    values.push_back(value);
  }
  const auto count = static_cast<int64_t>(values.size());
  call.outputs[0] = Generate({count, call.in(2).size()}, [&](const Index& at) {
    return Value(static_cast<double>(indices[at[0]][at[1]]));
  });
  call.outputs[1] = Generate({count}, [&](const Index& at) { return Value(values[at[0]]); });
}

void SparseAdd(Call& call) {
  const double least = call.in(6)[0].real();
  Combine(
      call, [](Number x, Number y) { return x + y; }, [&](Number sum) { return std::abs(sum) >= least; });
  call.outputs[2] = call.in(2);
}

void SparseAddGrad(Call& call) {
  for (int operand = 0; operand < 2; ++operand) {
    const Array& indices = call.in(1 + operand);
    call.outputs[operand] = Array({indices.dim(0)});
    for (int64_t i = 0; i < indices.dim(0); ++i) {
      for (int64_t k = 0; k < call.in(0).size(); ++k) {
        if (IndexAt(call.in(3), k) == IndexAt(indices, i)) call.outputs[operand][i] = call.in(0)[k];
      }
    }
  }
}

Number Conjugated(Number x, bool conjugates) { return conjugates ? std::conj(x) : x; }

void SparseTensorDenseMatMul(Call& call) {
  const bool adjoint_a = call.flag("adjoint_a"), adjoint_b = call.flag("adjoint_b");
  const Index a = call.in(2).integers();
  const Array& b = call.in(3);
  call.outputs[0] = Array({a[adjoint_a ? 1 : 0], b.dim(adjoint_b ? 0 : 1)});
  for (int64_t i = 0; i < call.in(1).size(); ++i) {
    Index at = IndexAt(call.in(0), i);
    if (adjoint_a) std::swap(at[0], at[1]);
    for (int64_t j = 0; j < call.outputs[0].dim(1); ++j) {
      const Number x = adjoint_b ? b.at({j, at[1]}).number : b.at({at[1], j}).number;
      call.outputs[0].at({at[0], j}).number +=
          Conjugated(call.in(1)[i].number, adjoint_a) * Conjugated(x, adjoint_b);
    }
  }
}

reference::Reference Cwise(const std::function<Number(Number, Number)>& combine) {
  return [combine](Call& call) {
    call.outputs[0] = call.in(1);
    for (int64_t i = 0; i < call.in(1).size(); ++i) {
      const Number dense = BroadcastAt(call.in(3), IndexAt(call.in(0), i)).number;
      call.outputs[0][i] = combine(call.in(1)[i].number, dense);
    }
  };
}

// The elements that fall on each element of the reduced tensor.
struct Reduced {
  Index dims;
  std::map<Index, std::vector<Number>> groups;
};

Reduced Group(const Call& call) {
  const Index dims = call.in(2).integers();
  std::vector<bool> is_reduced(dims.size());
  for (const int64_t axis : call.in(3).integers()) {
    is_reduced[Call::Axis(axis, static_cast<int>(dims.size()))] = true;
  }
  const auto reduce = [&](Index index, int64_t kept) {
    Index result;
    for (size_t d = 0; d < index.size(); ++d) {
      if (!is_reduced[d] || call.flag("keep_dims")) result.push_back(is_reduced[d] ? kept : index[d]);
    }
    return result;
  };
  Reduced reduced;
  reduced.dims = reduce(dims, 1);
  for (int64_t i = 0; i < call.in(1).size(); ++i) {
    reduced.groups[reduce(IndexAt(call.in(0), i), 0)].push_back(call.in(1)[i].number);
  }
  return reduced;
}

using CombineGroup = std::function<Number(const std::vector<Number>&)>;

Number SumOf(const std::vector<Number>& group) {
  Number sum = 0;
  for (const Number x : group) sum += x;
  return sum;
}
Number MaximumOf(const std::vector<Number>& group) {
  return *std::max_element(group.begin(), group.end(),
                           [](Number x, Number y) { return x.real() < y.real(); });
}

reference::Reference ReduceToDense(const CombineGroup& combine) {
  return [combine](Call& call) {
    const Reduced reduced = Group(call);
    call.outputs[0] = Array(reduced.dims);
    for (const auto& [index, group] : reduced.groups) call.outputs[0].at(index) = combine(group);
  };
}

reference::Reference ReduceToSparse(const CombineGroup& combine) {
  return [combine](Call& call) {
    const Reduced reduced = Group(call);
    const auto count = static_cast<int64_t>(reduced.groups.size());
    Array indices({count, static_cast<int64_t>(reduced.dims.size())}), values({count});
    int64_t i = 0;
    for (const auto& [index, group] : reduced.groups) {
      for (size_t d = 0; d < index.size(); ++d) {
        indices.at({i, static_cast<int64_t>(d)}) = static_cast<double>(index[d]);
      }
      values[i++] = combine(group);
    }
    call.outputs = {indices, values, Vector(reduced.dims)};
  };
}

void SparseSoftmax(Call& call) {
  std::map<Index, double> sums;
  const auto row_of = [&](int64_t i) {
    Index index = IndexAt(call.in(0), i);
    index.pop_back();
    return index;
  };
  for (int64_t i = 0; i < call.in(1).size(); ++i) sums[row_of(i)] += std::exp(call.in(1)[i].real());
  call.outputs[0] = call.in(1);
  for (int64_t i = 0; i < call.in(1).size(); ++i) {
    call.outputs[0][i] = std::exp(call.in(1)[i].real()) / sums[row_of(i)];
  }
}

// ---- Calls ----

Tensor Matrix(const std::vector<std::vector<int64_t>>& rows, int64_t rank = 2, D dtype = D::kInt64) {
  std::vector<double> numbers;
  for (const auto& row : rows) numbers.insert(numbers.end(), row.begin(), row.end());
  return Make(dtype, {static_cast<int64_t>(rows.size()), rank}, numbers);
}

// [2,3] with three elements, and with two of which one is at a place of the others.
Tensor Three(D dtype = D::kInt64) { return Matrix({{0, 1}, {1, 0}, {1, 2}}, 2, dtype); }
Tensor Two() { return Matrix({{0, 1}, {1, 1}}); }
Tensor Shape23() { return Longs({2, 3}); }

// Not negative: all dtypes have them.
Tensor Elements(D dtype, std::vector<int64_t> dims, int seed = 1) {
  return dtype == D::kString ? Any(dtype, std::move(dims), seed) : Sample(dtype, std::move(dims), 0, 9, seed);
}

void RefuseBroken(OpRecord& record, const std::vector<CaseInput>& inputs, int first,
                  const AttrMap& attrs = {}) {
  const auto with = [&](int part, Tensor tensor) {
    std::vector<CaseInput> changed = inputs;
    changed[first + part] = std::move(tensor);
    return changed;
  };
  record.Hostile(with(0, Longs({0, 1, 2})), "Sparse indices must be rank 2 but is rank 1", attrs)
      .Hostile(with(1, Floats({2, 1})), "Sparse values must be rank 1 but is rank 2", attrs)
      .Hostile(with(1, Floats({7})), "and values (7) do not match", attrs)
      .Hostile(with(2, Longs({2, 3, 4})), "Index rank (2) and shape rank (3) do not match", attrs)
      .Hostile(with(2, Longs({2, -3})), "Expected shape dimensions to be non-negative, got -3", attrs);
}

void AddToDense(Suite& suite) {
  OpRecord& record = suite.Op("SparseToDense").Reference(SparseToDense);
  const Tensor zero = Floats({});
  for (D d : Join({kNumbers, {D::kBool, D::kString}})) {
    for (D i : {D::kInt32, D::kInt64}) {
      record.Call({Three(i), Make(i, {2}, {2, 3}), Elements(d, {3}), Elements(d, {}, 5)});
    }
  }
  record.Call({Matrix({{1}, {2}}, 1), Longs({4}), Floats({2}), zero})
      .Call({Matrix({}), Longs({2, 0}), Floats({0}), zero})
      .Call({Matrix({{1, 0}, {0, 1}}), Longs({2, 2}), Floats({2}), zero}, {{"validate_indices", false}});
  // TensorFlow's gradient has the shape of the elements, also where one value stands for all, and takes
  // positions for one index.
  record.NoGradient()
      .Call({Ints({1, 2}), Ints({4}), Floats({2}), zero})
      .Call({Three(), Shape23(), Floats({}, 3), zero})
      .Call({Int(2), Ints({4}), Floats({}, 3), zero})
      .Call({Matrix({{0, 1}, {0, 1}}), Longs({2, 2}), Floats({2}), zero}, {{"validate_indices", false}});
  const AttrMap unchecked = {{"validate_indices", false}};
  record
      .Hostile({Three(), Shape23(), Floats({2}), zero},
               "sparse_values has incorrect shape [2], should be [] or [3]")
      .Hostile({Three(), Shape23(), Floats({3}), Floats({1})}, "default_value should be a scalar")
      .Hostile({Three(), Longs({2, 2}), Floats({3}), zero},
               "indices[2] = [1,2] is out of bounds: need 0 <= index < [2,2]")
      .Hostile({Matrix({{-1, 0}}), Shape23(), Floats({1}), zero}, "indices[0] = [-1,0] is out of bounds")
      .Hostile({Three(), Longs({2, 2}), Floats({3}), zero}, "Indices are not valid (out of bounds)",
               unchecked)
      .Hostile({Matrix({{1, 0}, {0, 1}}), Shape23(), Floats({2}), zero}, "indices[1] = [0,1] is out of order")
      .Hostile({Matrix({{0, 1}, {0, 1}}), Shape23(), Floats({2}), zero}, "indices[1] = [0,1] is repeated")
      .Hostile({Three(), Longs({2, 3, 4}), Floats({3}), zero},
               "output_shape has incorrect number of elements: 3")
      .Hostile({Make(D::kInt64, {1, 1, 2}, {0, 0}), Shape23(), Floats({1}), zero},
               "scalar, vector, or matrix")
      .Hostile({Three(), Matrix({{2, 3}}), Floats({3}), zero}, "output_shape must be rank 1, got shape [1,2]")
      .Hostile({Three(), Longs({2, -3}), Floats({3}), zero}, "-3")
      .Hostile({Three(), Longs({kWide, kWide}), Floats({3}), zero}, "")
      .OutOfMemory({Three(), Longs({2, kWide}), Floats({3}), zero})
      .OutOfMemory({Tensor(D::kInt64, Shape({int64_t{1} << 40, 0})), Longs({}), Floats({}, 3), zero})
      .OutOfMemory(
          {Matrix({}), Longs({100, 100}), Strings({0}, {}), Strings({}, {std::string(100'000, 'a')})});

  OpRecord& add = suite.Op("SparseTensorDenseAdd").Reference(SparseTensorDenseAdd);
  for (D d : kNumbers) {
    for (D i : {D::kInt32, D::kInt64}) {
      add.Call({Three(i), Sample(d, {3}, 0, 9), Make(i, {2}, {2, 3}), Sample(d, {2, 3}, 0, 9, 2)});
    }
  }
  add.Call({Matrix({{0, 1}, {0, 1}}), Floats({2}), Shape23(), Floats({2, 3})})
      .Call({Matrix({}), Floats({0}), Shape23(), Floats({2, 3})})
      .Hostile({Three(), Floats({3}), Longs({2, 4}), Floats({2, 3})}, "sparse side 4 vs dense side 3")
      .Hostile({Matrix({{0, 5}}), Floats({1}), Shape23(), Floats({2, 3})}, "a_indices[0] = [0,5]")
      .Hostile({Matrix({{0, -1}}), Floats({1}), Shape23(), Floats({2, 3})}, "a_indices[0] = [0,-1]")
      .Hostile({Three(), Floats({2}), Shape23(), Floats({2, 3})}, "do not fit a b of rank 2")
      .Hostile({Three(), Floats({3}), Shape23(), Floats({6})}, "do not fit a b of rank 1")
      .Hostile({Longs({0, 1}), Floats({3}), Shape23(), Floats({2, 3})}, "a_indices must be a matrix");
}

void AddSums(Suite& suite) {
  OpRecord& add = suite.Op("SparseAdd").Reference(SparseAdd);
  add.ShapeDependsOnValues();
  for (D d : kNumbers) {
    const D real = d == D::kComplex64 ? D::kFloat32 : d == D::kComplex128 ? D::kFloat64 : d;
    add.Call({Three(), Make(d, {3}, {1, 2, 3}), Shape23(), Two(), Make(d, {2}, {4, 5}), Shape23(),
              Make(real, {}, {2.5})});
  }
  const Tensor zero = Make(D::kFloat32, {}, {0});
  const auto minus = Make(D::kFloat32, {2}, {-0.5, 5}), values = Make(D::kFloat32, {3}, {1, 2, 3});
  add.Call({Three(), values, Shape23(), Two(), minus, Shape23(), zero})
      .Call({Matrix({}), Floats({0}), Shape23(), Two(), minus, Shape23(), zero})
      .Call({Matrix({}), Floats({0}), Shape23(), Matrix({}), Floats({0}), Shape23(), zero});
  // A sum that vanishes at the threshold has no derivative.
  add.NoGradient().Call({Three(), values, Shape23(), Two(), minus, Shape23(), Make(D::kFloat32, {}, {0.75})});
  const auto refuse_pair = [](OpRecord& record, std::vector<CaseInput> more) {
    std::vector<CaseInput> inputs = {Three(), Floats({3}), Shape23(), Two(), Floats({2}), Shape23()};
    inputs.insert(inputs.end(), more.begin(), more.end());
    RefuseBroken(record, inputs, 0);
    RefuseBroken(record, inputs, 3);
    inputs[5] = Longs({2, 4});
    record.Hostile(inputs, "Operands' shapes do not match: got 3 and 4 for dimension 1");
    inputs[3] = Matrix({{0}, {1}}, 1);
    inputs[5] = Longs({4});
    record.Hostile(inputs, "Ranks of input tensors must match, but saw ranks: 2 and 1");
  };
  refuse_pair(add, {zero});
  add.Hostile({Three(), Floats({3}), Shape23(), Two(), Floats({2}), Shape23(), Floats({1})},
              "The magnitude threshold must be a scalar: got shape [1]");

  OpRecord& grad = suite.Op("SparseAddGrad").Reference(SparseAddGrad);
  const Tensor sum = Matrix({{0, 1}, {1, 0}, {1, 1}, {1, 2}});
  for (D d : kNumbers) grad.Call({Sample(d, {4}, 0, 9), Three(), Two(), sum});
  grad.Call({Floats({3}), Three(), Two(), Matrix({{1, 0}, {1, 1}, {1, 2}})})
      .Call({Floats({0}), Three(), Two(), Matrix({})})
      .Hostile({Floats({3}), Three(), Two(), sum}, "got 3 and 4")
      .Hostile({Floats({4}), Matrix({{0}}, 1), Two(), sum}, "should have the same ndims")
      .Hostile({Floats({4}), Longs({1}), Two(), sum}, "input 1 must have rank 2, is [1]")
      .Hostile({Floats({4, 1}), Three(), Two(), sum}, "input 0 must have rank 1, is [4,1]");

  const auto extreme = [&](const std::string& op, bool is_maximum) {
    OpRecord& record = suite.Op(op)
                           .Reference([is_maximum](Call& call) {
                             Combine(
                                 call,
                                 [is_maximum](Number x, Number y) {
                                   if (std::isnan(x.real()) || std::isnan(y.real()))
                                     return std::isnan(x.real()) ? x : y;
                                   return is_maximum == (x.real() > y.real()) ? x : y;
                                 },
                                 [](Number) { return true; });
                           })
                           .NoGradient();
    record.ShapeDependsOnValues();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    record.Call({Three(), Tensor::Vector<float>({1, nan, -1}), Shape23(), Two(),
                 Tensor::Vector<float>({nan, nan}), Shape23()});
    for (D d : kOrdered) {
      record.Call({Three(), Sample(d, {3}, IsUnsigned(d) ? 0 : -5, 5), Shape23(), Two(),
                   Sample(d, {2}, 0, 5, 2), Shape23()});
    }
    refuse_pair(record, {});
  };
  extreme("SparseSparseMaximum", true);
  extreme("SparseSparseMinimum", false);
  // As in TensorFlow, whose schema has them.
  suite.Op("SparseSparseMinimum").NoKernelFor("T", kComplexes, "complex numbers have no order");
}

void AddMatMul(Suite& suite) {
  OpRecord& record = suite.Op("SparseTensorDenseMatMul").Reference(SparseTensorDenseMatMul);
  record.Call({Three(D::kInt32), Floats({3}), Shape23(), Floats({3, 2})})
      .Call({Matrix({{0, 1}, {0, 1}}), Floats({2}), Shape23(), Floats({3, 2})})
      .Call({Matrix({}), Floats({0}), Shape23(), Floats({3, 2})})
      .Call({Matrix({}), Floats({0}), Longs({0, 3}), Floats({3, 0})});
  const std::vector<D> dtypes = {D::kFloat32, D::kFloat64, D::kHalf,      D::kBfloat16,
                                 D::kInt32,   D::kInt64,   D::kComplex64, D::kComplex128};
  for (D d : dtypes) {
    record.Tolerance(SumTolerance(d == D::kComplex64 ? D::kFloat32 : d));
    if (IsComplex(d)) record.NoGradient();  // refused: there is no Conj
    for (bool adjoint_a : {false, true}) {
      for (bool adjoint_b : {false, true}) {
        const int64_t inner = adjoint_a ? 2 : 3;
        const Tensor b =
            Sample(d, adjoint_b ? std::vector<int64_t>{4, inner} : std::vector<int64_t>{inner, 4});
        record.Call({Three(), Sample(d, {3}), Shape23(), b},
                    {{"adjoint_a", adjoint_a}, {"adjoint_b", adjoint_b}});
      }
    }
  }
  record.Tolerance(0)
      .NoKernelFor("T",
                   {D::kInt8, D::kInt16, D::kUint8, D::kUint16, D::kUint32, D::kUint64, D::kBool, D::kString},
                   "as in TensorFlow")
      .Hostile({Three(), Floats({3}), Shape23(), Floats({2, 2})}, "inner")
      .Hostile({Three(), Floats({3}), Shape23(), Floats({3, 2})}, "inner", {{"adjoint_b", true}})
      .Hostile({Matrix({{0, 7}}), Floats({1}), Shape23(), Floats({3, 2})},
               "k (7) from index[0,1] out of bounds (>=3)")
      .Hostile({Matrix({{7, 0}}), Floats({1}), Shape23(), Floats({3, 2})},
               "m (7) from index[0,0] out of bounds (>=2)")
      .Hostile({Matrix({{-1, 0}}), Floats({1}), Shape23(), Floats({3, 2})},
               "m (-1) from index[0,0] out of bounds")
      .Hostile({Three(), Floats({2}), Shape23(), Floats({3, 2})},
               "Number of rows of a_indices does not match")
      .Hostile({Matrix({{0, 0, 0}}, 3), Floats({1}), Shape23(), Floats({3, 2})},
               "Number of columns of a_indices")
      .Hostile({Three(), Floats({3}), Longs({2, 3, 1}), Floats({3, 2})},
               "Tensor 'a_shape' must have 2 elements")
      .Hostile({Three(), Floats({3}), Shape23(), Floats({3})}, "Tensor 'b' is not a matrix")
      .Hostile({Three(), Floats({3, 1}), Shape23(), Floats({3, 2})}, "Tensor 'a_values' is not a vector")
      .Hostile({Matrix({}), Floats({0}), Longs({-2, 3}), Floats({3, 2})}, "inner")
      .OutOfMemory({Matrix({}), Floats({0}), Longs({kWide, 3}), Floats({3, 2})});
}

void AddCwise(Suite& suite) {
  const auto cwise = [&](const std::string& op, const std::function<Number(Number, Number)>& combine) {
    OpRecord& record = suite.Op(op).Reference(Cwise(combine));
    if (op == "SparseDenseCwiseAdd") record.NoGradient();  // TensorFlow has none
    for (D d : kNumbers) {
      if (IsComplex(d)) continue;
      record.Call({Three(), Make(d, {3}, {4, 8, 6}), Shape23(), Make(d, {3}, {1, 2, 3})})
          .Call({Three(), Make(d, {3}, {4, 8, 6}), Shape23(), Make(d, {2, 1}, {1, 2})});
    }
    record
        .Call({Three(), Make(D::kFloat32, {3}, {4, 8, 6}), Shape23(),
               Make(D::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6})})
        .Call({Matrix({}), Floats({0}), Shape23(), Floats({2, 3})});
    // TensorFlow has no gradient of complex numbers, nor where the dense tensor is a scalar.
    record.NoGradient();
    for (D d : kMain) record.Call({Three(), Make(d, {3}, {4, 8, 6}), Shape23(), Make(d, {}, {2})});
    for (D d : kComplexes) record.Call({Three(), Sample(d, {3}), Shape23(), Make(d, {3}, {1, 2, 4})});
    RefuseBroken(record, {Three(), Floats({3}), Shape23(), Floats({2, 3})}, 0);
    record.Hostile({Three(), Floats({3}), Shape23(), Floats({3, 1})}, "incompatible shapes: [2,3] vs. [3,1]")
        .Hostile({Three(), Floats({3}), Shape23(), Floats({1, 1, 1})},
                 "incompatible shapes: [2,3] vs. [1,1,1]")
        .Hostile({Matrix({{5, 5}}), Floats({1}), Shape23(), Floats({2, 1})}, "out of bounds")
        .Hostile({Matrix({{0, -1}}), Floats({1}), Shape23(), Floats({3})}, "out of bounds");
  };
  cwise("SparseDenseCwiseAdd", [](Number x, Number y) { return x + y; });
  cwise("SparseDenseCwiseMul", [](Number x, Number y) { return x * y; });
  cwise("SparseDenseCwiseDiv", [](Number x, Number y) { return x / y; });
  suite.Op("SparseDenseCwiseDiv")
      .Hostile({Three(), Ints({1, 2, 3}), Shape23(), Ints({1, 0, 2})},
               "SparseDenseCwiseDiv cannot divide by zero");
}

void AddReductions(Suite& suite) {
  const auto add = [&](const std::string& op, const reference::Reference& reference,
                       const std::vector<D>& dtypes) {
    const bool is_dense = op == "SparseReduceSum" || op == "SparseReduceMax";
    OpRecord& record = suite.Op(op).Reference(reference);
    if (!is_dense) record.ShapeDependsOnValues();
    if (op != "SparseReduceSum") record.NoGradient();  // as in TensorFlow
    for (D d : dtypes) {
      for (const Tensor& axes : {Int(1), Ints({0}), Ints({0, -1}), Ints({})}) {
        for (bool keep_dims : {false, true}) {
          record.Call({Three(), Sample(d, {3}, IsUnsigned(d) ? 0 : -4, 4), Longs({3, 3}), axes},
                      {{"keep_dims", keep_dims}});
        }
      }
    }
    const Tensor cube = Matrix({{0, 1, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 1}}, 3);
    for (const Tensor& axes : {Ints({1}), Ints({0, 2}), Ints({2, 0}), Ints({0, 0})}) {
      record.Call({cube, Floats({4}), Longs({2, 2, 2}), axes});
    }
    record.Call({Matrix({}), Floats({0}), Shape23(), Ints({1})});
    RefuseBroken(record, {Three(), Floats({3}), Shape23(), Int(0)}, 0);
    record.Hostile({Three(), Floats({3}), Shape23(), Int(2)}, "2")
        .Hostile({Matrix({{1, 2}}), Floats({1}), Longs({int64_t{1} << 32, int64_t{1} << 31}), Int(0)},
                 "no shape has the dimensions")
        .Hostile({Three(), Floats({3}), Shape23(), Ints({0, -3})}, "-3")
        .Hostile({Three(), Floats({3}), Shape23(), Make(D::kInt32, {1, 1}, {0})}, "reduction_axes must be")
        .Hostile({Matrix({{7, 0}}), Floats({1}), Shape23(), Int(1)}, "out of bounds")
        .Hostile({Matrix({{0, -7}}), Floats({1}), Shape23(), Int(0)}, "out of bounds");
    if (is_dense) record.OutOfMemory({Matrix({}), Floats({0}), Longs({2, kWide}), Int(0)});
  };
  add("SparseReduceSum", ReduceToDense(SumOf), kNumbers);
  add("SparseReduceMax", ReduceToDense(MaximumOf), kOrdered);
  add("SparseReduceMaxSparse", ReduceToSparse(MaximumOf), kOrdered);
  add("SparseReduceSumSparse", ReduceToSparse(SumOf), kNumbers);
}

}  // namespace

void AddSparseSumsRecords(Suite& suite) {
  AddToDense(suite);
  AddSums(suite);
  AddMatMul(suite);
  AddCwise(suite);
  AddReductions(suite);
  OpRecord& softmax = suite.Op("SparseSoftmax").Reference(SparseSoftmax);
  for (D d : {D::kFloat32, D::kFloat64, D::kHalf}) {
    softmax.Call({Matrix({{0, 0, 0}, {0, 0, 1}, {1, 1, 0}}, 3), Sample(d, {3}), Longs({2, 2, 2})})
        .Call({Three(), Sample(d, {3}), Shape23()});
  }
  softmax.Call({Matrix({}), Floats({0}), Shape23()})
      .Hostile({Matrix({{1, 1}}), Floats({1}), Longs({int64_t{1} << 32, int64_t{1} << 31})},
               "no shape has the dimensions")
      .Hostile({Matrix({{0}}, 1), Floats({1}), Longs({2})}, "Input should have rank >= 2");
  RefuseBroken(softmax, {Three(), Floats({3}), Shape23()}, 0);
}

}  // namespace weir::conformance
