// Sparse tensors reordered, reshaped, joined, split, sliced and filled.
#include <algorithm>
#include <map>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

// A sparse tensor as a list of coordinates and values.
struct SparseArray {
  std::vector<Index> indices;
  std::vector<Value> values;
  Index dims;
};

SparseArray Read(const Array& indices, const Array& values, const Array& shape) {
  SparseArray elements;
  elements.dims = shape.integers();
  for (int64_t i = 0; i < values.size(); ++i) {
    Index index;
    for (int64_t d = 0; d < indices.dim(1); ++d) index.push_back(indices.at({i, d}).integer());
    elements.indices.push_back(index);
    elements.values.push_back(values[i]);
  }
  return elements;
}

Array IndicesOf(const SparseArray& elements) {
  return Generate(
      {static_cast<int64_t>(elements.indices.size()), static_cast<int64_t>(elements.dims.size())},
      [&](const Index& at) { return Value(static_cast<double>(elements.indices[at[0]][at[1]])); });
}

Array ValuesOf(const SparseArray& elements) {
  return Generate({static_cast<int64_t>(elements.values.size())},
                  [&](const Index& at) { return elements.values[at[0]]; });
}

SparseArray Sorted(const SparseArray& elements) {
  std::multimap<Index, Value> sorted;
  for (size_t i = 0; i < elements.indices.size(); ++i)
    sorted.emplace(elements.indices[i], elements.values[i]);
  SparseArray result;
  result.dims = elements.dims;
  for (const auto& [index, value] : sorted) {
    result.indices.push_back(index);
    result.values.push_back(value);
  }
  return result;
}

void SparseReorder(Call& call) {
  const SparseArray sorted = Sorted(Read(call.in(0), call.in(1), call.in(2)));
  call.outputs = {IndicesOf(sorted), ValuesOf(sorted)};
}

void SparseReshape(Call& call) {
  const Array from(call.in(1).integers());
  Index dims = call.in(2).integers();
  int64_t known = 1;
  for (const int64_t dim : dims) known *= dim == -1 ? 1 : dim;
  for (int64_t& dim : dims) {
    if (dim == -1) dim = from.size() / known;
  }
  call.outputs[1] = Vector(dims);
  if (dims == from.dims()) {  // also indices that are not in the shape
    call.outputs[0] = call.in(0);
    return;
  }
  const Array to(dims);
  const int64_t count = call.in(0).dim(0);
  call.outputs[0] = Generate({count, static_cast<int64_t>(dims.size())}, [&](const Index& at) {
    Index index;
    for (int64_t d = 0; d < call.in(0).dim(1); ++d) index.push_back(call.in(0).at({at[0], d}).integer());
    return Value(static_cast<double>(to.IndexOf(from.PositionOf(index))[at[1]]));
  });
}

void SparseConcat(Call& call) {
  const auto count = static_cast<int>(call.integer("N"));
  SparseArray all;
  int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    SparseArray part = Read(call.in(i), call.in(count + i), call.in(2 * count + i));
    const int axis = Call::Axis(call.integer("concat_dim"), static_cast<int>(part.dims.size()));
    for (Index& index : part.indices) index[axis] += offset;
    offset += part.dims[axis];
    all.dims = part.dims;
    all.dims[axis] = offset;
    all.indices.insert(all.indices.end(), part.indices.begin(), part.indices.end());
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  all = Sorted(all);
  call.outputs = {IndicesOf(all), ValuesOf(all), Vector(all.dims)};
}

void SparseSplit(Call& call) {
  const SparseArray all = Read(call.in(1), call.in(2), call.in(3));
  const int axis = Call::Axis(call.in(0)[0].integer(), static_cast<int>(all.dims.size()));
  const int64_t count = call.integer("num_split");
  int64_t begin = 0;
  for (int64_t k = 0; k < count; ++k) {
    SparseArray part;
    part.dims = all.dims;
    part.dims[axis] = all.dims[axis] / count + (k < all.dims[axis] % count ? 1 : 0);
    for (size_t i = 0; i < all.indices.size(); ++i) {
      Index index = all.indices[i];
      index[axis] -= begin;
      if (index[axis] < 0 || index[axis] >= part.dims[axis]) continue;
      part.indices.push_back(index);
      part.values.push_back(all.values[i]);
    }
    begin += part.dims[axis];
    call.outputs[k] = IndicesOf(part);
    call.outputs[count + k] = ValuesOf(part);
    call.outputs[2 * count + k] = Vector(part.dims);
  }
}

void SparseSlice(Call& call) {
  const SparseArray all = Read(call.in(0), call.in(1), call.in(2));
  const Index start = call.in(3).integers(), size = call.in(4).integers();
  SparseArray part;
  for (size_t d = 0; d < all.dims.size(); ++d) {
    part.dims.push_back(std::max<int64_t>(0, std::min(size[d], all.dims[d] - start[d])));
  }
  for (size_t i = 0; i < all.indices.size(); ++i) {
    Index index = all.indices[i];
    bool is_inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      index[d] -= start[d];
      is_inside &= index[d] >= 0 && index[d] < part.dims[d];
    }
    if (!is_inside) continue;
    part.indices.push_back(index);
    part.values.push_back(all.values[i]);
  }
  call.outputs = {IndicesOf(part), ValuesOf(part), Vector(part.dims)};
}

void SparseSliceGrad(Call& call) {
  call.outputs[0] = Array({call.in(1).dim(0)});
  for (int64_t i = 0; i < call.in(1).dim(0); ++i) {
    for (int64_t k = 0; k < call.in(0).size(); ++k) {
      bool is_it = true;
      for (int64_t d = 0; d < call.in(1).dim(1); ++d) {
        is_it &= call.in(1).at({i, d}).integer() == call.in(3).at({k, d}).integer() + call.in(2)[d].integer();
      }
      if (is_it) call.outputs[0][i] = call.in(0)[k];
    }
  }
}

void SparseFillEmptyRows(Call& call) {
  const SparseArray all = Read(call.in(0), call.in(1), call.in(2));
  SparseArray filled;
  filled.dims = all.dims;
  Array is_empty({all.dims[0]}), places({static_cast<int64_t>(all.indices.size())});
  for (int64_t row = 0; row < all.dims[0]; ++row) {
    is_empty[row] = 1.0;
    for (size_t i = 0; i < all.indices.size(); ++i) {
      if (all.indices[i][0] != row) continue;
      is_empty[row] = 0.0;
      places[static_cast<int64_t>(i)] = static_cast<double>(filled.indices.size());
      filled.indices.push_back(all.indices[i]);
      filled.values.push_back(all.values[i]);
    }
    if (is_empty[row].is_zero()) continue;
    Index index(all.dims.size());
    index[0] = row;
    filled.indices.push_back(index);
    filled.values.push_back(call.in(3)[0]);
  }
  call.outputs = {IndicesOf(filled), ValuesOf(filled), is_empty, places};
}

void SparseFillEmptyRowsGrad(Call& call) {
  call.outputs[0] = Array(call.in(0).dims());
  call.outputs[1] = Array(Index{});
  Number unused = 0;
  for (int64_t k = 0; k < call.in(1).size(); ++k) unused += call.in(1)[k].number;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    call.outputs[0][i] = call.in(1)[call.in(0)[i].integer()];
    unused -= call.outputs[0][i].number;
  }
  call.outputs[1][0] = unused;
}

Tensor Matrix(std::vector<std::vector<int64_t>> rows, int64_t rank = 2) {
  Tensor matrix(D::kInt64, Shape({static_cast<int64_t>(rows.size()), rank}));
  int64_t* next = matrix.flat<int64_t>().data();
  for (const auto& row : rows) next = std::copy(row.begin(), row.end(), next);
  return matrix;
}

// [2,3] with three elements.
const Tensor& Indices() {
  static const auto* const indices = new Tensor(Matrix({{0, 1}, {1, 0}, {1, 2}}));
  return *indices;
}
// Not negative: all dtypes have them.
Tensor Elements(D dtype, std::vector<int64_t> dims, int seed = 1) {
  return dtype == D::kString ? Any(dtype, std::move(dims), seed) : Sample(dtype, std::move(dims), 0, 9, seed);
}
Tensor Three(D dtype) { return Elements(dtype, {3}); }

// What no op on a sparse tensor takes; the tensor is inputs `first` to `first` + 2 of a good call.
void RefuseBroken(OpRecord& record, const std::vector<CaseInput>& inputs, int first,
                  const AttrMap& attrs = {}, int step = 1) {
  const auto with = [&](int part, Tensor tensor) {
    std::vector<CaseInput> changed = inputs;
    changed[first + part * step] = std::move(tensor);
    return changed;
  };
  record.Hostile(with(0, Longs({0, 1, 2})), "Sparse indices must be rank 2 but is rank 1", attrs)
      .Hostile(with(1, Floats({3, 1})), "Sparse values must be rank 1 but is rank 2", attrs)
      .Hostile(with(1, Floats({2})), "Number of elements in indices (3) and values (2) do not match", attrs)
      .Hostile(with(2, Matrix({{2, 3}})), "Sparse shape must be rank 1 but is rank 2", attrs)
      .Hostile(with(2, Longs({2, 3, 4})), "Index rank (2) and shape rank (3) do not match", attrs)
      .Hostile(with(2, Longs({2, -3})), "Expected shape dimensions to be non-negative, got -3", attrs);
}

void AddReorder(Suite& suite) {
  const Tensor unsorted = Matrix({{1, 2}, {1, 0}, {0, 1}});
  OpRecord& record = suite.Op("SparseReorder").Reference(SparseReorder);
  for (D d : Join({kNumbers, {D::kBool, D::kString}})) record.Call({unsorted, Three(d), Longs({2, 3})});
  record.Call({Matrix({{1, 0}, {0, 1}, {1, 0}}), Ints({1, 2, 3}), Longs({2, 2})})
      .Call({Matrix({}), Floats({0}), Longs({2, 3})})
      .Call({Matrix({{1}, {0}}, 1), Floats({2}), Longs({2})})
      .Call({Matrix({{0, 1}}), Floats({1}), Longs({kWide, kWide})});
  RefuseBroken(record, {unsorted, Floats({3}), Longs({2, 3})}, 0);
}

void AddReshape(Suite& suite) {
  OpRecord& record = suite.Op("SparseReshape").Reference(SparseReshape).ShapeDependsOnValues();
  for (const Tensor& shape : {Longs({3, -1}), Longs({6}), Longs({2, 3}), Longs({1, 3, 1, 2}), Longs({-1})}) {
    record.Call({Indices(), Longs({2, 3}), shape});
  }
  record.Call({Matrix({}), Longs({2, 0}), Longs({0})})
      .Call({Matrix({}), Longs({2, 0}), Longs({5, -1})})
      .Call({Matrix({{0, 5}, {1, 0}}), Longs({2, 3}), Longs({2, 3})})
      .Call({Matrix({{0, 5}, {1, 0}}), Longs({2, 3}), Longs({-1, 3})})
      .Hostile({Indices(), Longs({2, 3}), Longs({-1, -1})},
               "only one output dimension may be -1, not both 0 and 1")
      .Hostile({Indices(), Longs({2, 3}), Longs({-1, 4})}, "requires a multiple of 4")
      .Hostile({Indices(), Longs({2, 3}), Longs({4})}, "with 6 dense values, but the requested shape has 4")
      .Hostile({Indices(), Longs({2, 3}), Longs({6, -2})}, "size 1 must be non-negative, not -2")
      .Hostile({Matrix({}), Longs({2, 0}), Longs({-1, 0})}, "reshape cannot infer the missing input size")
      .Hostile({Indices(), Longs({kWide, kWide}), Longs({-1})}, "Encountered overflow when multiplying")
      .Hostile({Indices(), Longs({2, 3}), Longs({kWide, kWide})}, "Encountered overflow when multiplying")
      .Hostile({Indices(), Longs({2, -3}), Longs({-1})}, "Encountered overflow when multiplying")
      .Hostile({Longs({1, 2}), Longs({2, 3}), Longs({6})}, "Input must be a matrix.")
      .Hostile({Matrix({{0, 1, 2}}, 3), Longs({2, 3}), Longs({6})},
               "Input tensor rank must match input shape length")
      .Hostile({Indices(), Matrix({{2, 3}}), Longs({6})}, "Input shape must be a vector")
      .Hostile({Tensor(D::kInt64, Shape({int64_t{1} << 62, 0})), Longs({}), Longs({1, 1})},
               "no shape has the dimensions [4611686018427387904,2]");
}

void AddConcatAndSplit(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& concat = suite.Op("SparseConcat").Reference(SparseConcat);
  concat.ShapeDependsOnValues();
  const Tensors indices = {Indices(), Matrix({{1, 1}, {0, 0}})};
  for (int axis : {1, -1}) {
    for (D d : {D::kFloat32, D::kString, D::kComplex128, D::kInt8}) {
      concat.Call({indices, Tensors{Three(d), Elements(d, {2}, 2)}, Tensors{Longs({2, 3}), Longs({2, 2})}},
                  {{"concat_dim", axis}});
    }
  }
  concat.Call({indices, Tensors{Floats({3}), Floats({2})}, Tensors{Longs({2, 3}), Longs({4, 3})}},
              {{"concat_dim", 0}});
  const auto refuse = [&](Tensor second_indices, Tensor second_values, Tensor second_shape, int axis,
                          const std::string& error) {
    concat.Hostile(
        {Tensors{Indices(), std::move(second_indices)}, Tensors{Floats({3}), std::move(second_values)},
         Tensors{Longs({2, 3}), std::move(second_shape)}},
        error, {{"concat_dim", axis}});
  };
  refuse(indices[1], Floats({2}), Longs({2, 2}), 0, "expected 3 for dimension 1 but got 2 at position 1");
  refuse(indices[1], Floats({2}), Longs({2, 2}), 2, "Concat dimension must be in range [-2, 2), got 2");
  refuse(indices[1], Floats({2}), Longs({2, 2}), -3, "Concat dimension must be in range [-2, 2), got -3");
  refuse(Matrix({{0, 0, 0}}, 3), Floats({1}), Longs({2, 3, 1}), 1, "expected 2 but got 3 at position 1");
  refuse(indices[1], Floats({2}), Longs({2, kLongest}), 1, "more than 2^63");
  refuse(indices[1], Floats({1}), Longs({2, 2}), 1, "Number of elements in indices (2) and values (1)");

  OpRecord& split = suite.Op("SparseSplit").Reference(SparseSplit).NoGradient();
  split.ShapeDependsOnValues();
  const Tensor five = Matrix({{0, 2}, {0, 4}, {0, 5}, {1, 0}, {1, 1}});
  const auto axis = [](int64_t at) { return Tensor::Scalar<int64_t>(at); };
  for (D d : {D::kFloat32, D::kString, D::kInt64}) {
    split.Call({axis(1), five, Elements(d, {5}), Longs({2, 7})}, {{"num_split", 3}})
        .Call({axis(-2), five, Elements(d, {5}), Longs({2, 7})}, {{"num_split", 2}})
        .Call({axis(1), five, Elements(d, {5}), Longs({2, 7})}, {{"num_split", 7}});
  }
  const AttrMap two = {{"num_split", 2}};
  split
      .Hostile({axis(2), five, Floats({5}), Longs({2, 7})}, "Input axis should be in range [-2, 2), got 2",
               two)
      .Hostile({axis(kShortest), five, Floats({5}), Longs({2, 7})}, "Input axis should be in range", two)
      .Hostile({Longs({1}), five, Floats({5}), Longs({2, 7})}, "Input axis should be a scalar", two)
      .Hostile({axis(1), five, Floats({5}), Longs({2, 7})}, "splitting dimension size (7), got 8",
               {{"num_split", 8}})
      .Hostile({axis(1), five, Floats({5}), Longs({2, 5})}, "out of bounds", two)
      .Hostile({axis(1), Matrix({{0, -1}}), Floats({1}), Longs({2, 5})}, "out of bounds", two);
  RefuseBroken(split, {axis(1), Indices(), Floats({3}), Longs({2, 3})}, 1, two);
}

void AddSlice(Suite& suite) {
  OpRecord& slice = suite.Op("SparseSlice").Reference(SparseSlice);
  slice.ShapeDependsOnValues();
  for (D d : Join({kReals, {D::kString, D::kInt32, D::kComplex64}})) {
    slice.Call({Indices(), Three(d), Longs({2, 3}), Longs({0, 1}), Longs({2, 1})})
        .Call({Indices(), Three(d), Longs({2, 3}), Longs({0, 1}), Longs({5, 5})});
  }
  slice.Call({Indices(), Floats({3}), Longs({2, 3}), Longs({1, 3}), Longs({5, 5})})
      .Call({Matrix({}), Floats({0}), Longs({2, 3}), Longs({0, 0}), Longs({1, 1})})
      .Hostile({Indices(), Floats({3}), Longs({2, 3}), Longs({0, 0}), Longs({-1, 5})},
               "Expected a non-negative size, got -1")
      .Hostile({Indices(), Floats({3}), Longs({2, 3}), Longs({-1, 0}), Longs({1, 5})},
               "start must not be negative")
      .Hostile({Indices(), Floats({3}), Longs({2, 3}), Longs({0}), Longs({1, 5})},
               "Expected start to be a vector of length 2")
      .Hostile({Indices(), Floats({3}), Longs({2, 3}), Longs({0, 0}), Matrix({{1, 5}})},
               "Expected size to be a vector of length 2");
  RefuseBroken(slice, {Indices(), Floats({3}), Longs({2, 3}), Longs({0, 0}), Longs({1, 1})}, 0);

  OpRecord& grad = suite.Op("SparseSliceGrad").Reference(SparseSliceGrad).NoGradient();
  for (D d : kNumbers) {
    grad.Call({Sample(d, {2}, 0, 9), Indices(), Longs({0, 1}), Matrix({{0, 0}, {1, 1}})});
  }
  grad.Call({Floats({0}), Indices(), Longs({0, 1}), Matrix({})})
      .Hostile({Floats({2}), Indices(), Longs({0, 1}), Matrix({{0, 0}})}, "got 2 and 1")
      .Hostile({Floats({1}), Indices(), Longs({0, 1}), Matrix({{0, 7}})}, "Num elements:1, used: 0")
      .Hostile({Floats({1}), Indices(), Longs({kLongest, 1}), Matrix({{kLongest, 7}})},
               "Num elements:1, used: 0")
      .Hostile({Floats({1}), Indices(), Longs({0}), Matrix({{0, 0}})},
               "input_start to be a vector of length 2")
      .Hostile({Floats({1}), Longs({0, 1}), Longs({0, 0}), Matrix({{0, 0}})}, "must be a vector");
}

void AddFillEmptyRows(Suite& suite) {
  OpRecord& fill = suite.Op("SparseFillEmptyRows").Reference(SparseFillEmptyRows);
  fill.ShapeDependsOnValues();
  const auto scalar = [](D d) { return Elements(d, {}, 7); };
  for (D d : Join({kNumbers, {D::kString, D::kBool}})) {
    fill.Call({Matrix({{2, 1}, {0, 0}, {2, 0}}), Three(d), Longs({4, 3}), scalar(d)});
  }
  fill.Call({Indices(), Floats({3}), Longs({2, 3}), scalar(D::kFloat32)})
      .Call({Matrix({}), Floats({0}), Longs({0, 3}), scalar(D::kFloat32)})
      .Call({Matrix({}), Floats({0}), Longs({2, 3}), scalar(D::kFloat32)})
      .Hostile({Indices(), Floats({3}), Longs({1, 3}), scalar(D::kFloat32)},
               "indices(1, 0) is invalid: 1 >= 1")
      .Hostile({Matrix({{-1, 0}}), Floats({1}), Longs({1, 3}), scalar(D::kFloat32)}, "is invalid: -1 >= 1")
      .Hostile({Matrix({{0, 0}}), Floats({1}), Longs({0, 3}), scalar(D::kFloat32)}, "dense_shape[0] = 0")
      .Hostile({Matrix({{0, 0}}), Floats({1}), Longs({2, 3}), Floats({1})}, "default_value must be a scalar")
      .Hostile({Matrix({{}}, 0), Floats({1}), Longs({}), Floats({})}, "Dense shape cannot be empty.")
      .OutOfMemory({Matrix({{0, 0}}), Floats({1}), Longs({kWide, 3}), Floats({})})
      .OutOfMemory(
          {Matrix({}), Strings({0}, {}), Longs({10'000, 3}), Strings({}, {std::string(100'000, 'a')})});
  RefuseBroken(fill, {Indices(), Floats({3}), Longs({2, 3}), Floats({})}, 0);

  OpRecord& grad = suite.Op("SparseFillEmptyRowsGrad").Reference(SparseFillEmptyRowsGrad).NoGradient();
  for (D d : kNumbers) grad.Call({Longs({2, 1}), Sample(d, {4}, 0, 9)});
  grad.NoKernelFor("T", {D::kString, D::kBool}, "as in TensorFlow")
      .Call({Longs({}), Floats({2})})
      .Call({Longs({}), Floats({0})})
      .Hostile({Longs({2, 7}), Floats({4})}, "Elements in reverse index must be in [0, 4) but got 7")
      .Hostile({Longs({2, -1}), Floats({4})}, "Elements in reverse index must be in [0, 4) but got -1")
      .Hostile({Matrix({{2, 1}}), Floats({4})}, "reverse_index_map must be a vector, saw: [1,2]")
      .Hostile({Longs({2, 1}), Floats({4, 1})}, "grad_values must be a vector, saw: [4,1]");
}

}  // namespace

void AddSparseLayoutRecords(Suite& suite) {
  AddReorder(suite);
  AddReshape(suite);
  AddConcatAndSplit(suite);
  AddSlice(suite);
  AddFillEmptyRows(suite);
}

}  // namespace weir::conformance
