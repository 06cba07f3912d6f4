// Combinations of the features of several columns: what their ops refuse. tests/interop compares what they
// give with TensorFlow's.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using Tensors = std::vector<Tensor>;

struct Column {
  Tensor indices, values, shape;
};

Tensor Numbers(const std::vector<int64_t>& values) {
  return Make(D::kInt64, {static_cast<int64_t>(values.size())}, {values.begin(), values.end()});
}

Column Sparse(const std::vector<int64_t>& indices, Tensor values, int64_t rows, int64_t columns) {
  return {Make(D::kInt64, {static_cast<int64_t>(indices.size()) / 2, 2}, {indices.begin(), indices.end()}),
          std::move(values), Numbers({rows, columns})};
}

std::vector<CaseInput> Inputs(const std::vector<Column>& sparse, const Tensors& dense,
                              const Tensors& options) {
  Tensors indices, values, shapes;
  for (const Column& column : sparse) {
    indices.push_back(column.indices);
    values.push_back(column.values);
    shapes.push_back(column.shape);
  }
  std::vector<CaseInput> inputs = {indices, values, shapes, dense};
  inputs.insert(inputs.end(), options.begin(), options.end());
  return inputs;
}

// The rows of each column, in the order of the letters; then all choices of one feature of each.
void RaggedCross(reference::Call& call) {
  const std::string& order = call.text("input_order");
  const auto num_of = [&](char letter) {
    return static_cast<int>(std::count(order.begin(), order.end(), letter));
  };
  const int num_ragged = num_of('R'), num_sparse = num_of('S');
  std::vector<std::vector<std::vector<std::string>>> columns;
  const auto feature = [&](int input, int64_t i) {
    const Value& value = call.in(input)[i];
    return call.node.input_type(input) == DType::kString ? value.text : std::to_string(value.integer());
  };
  int next_ragged = 0, next_sparse = 0, next_dense = 0;
  for (const char letter : order) {
    std::vector<std::vector<std::string>> rows;
    if (letter == 'R') {
      const int values = next_ragged++, splits = num_ragged + values;
      rows.resize(call.in(splits).size() - 1);
      for (size_t r = 0; r < rows.size(); ++r) {
        for (int64_t i = call.in(splits)[r].integer(); i < call.in(splits)[r + 1].integer(); ++i)
          rows[r].push_back(feature(values, i));
      }
    } else if (letter == 'S') {
      const int indices = 2 * num_ragged + next_sparse++;
      rows.resize(call.in(indices + 2 * num_sparse)[0].integer());
      for (int64_t i = 0; i < call.in(indices).dim(0); ++i)
        rows[call.in(indices).at({i, 0}).integer()].push_back(feature(indices + num_sparse, i));
    } else {
      const int values = 2 * num_ragged + 3 * num_sparse + next_dense++;
      rows.resize(call.in(values).dim(0));
      for (int64_t i = 0; i < call.in(values).size(); ++i)
        rows[i / call.in(values).dim(1)].push_back(feature(values, i));
    }
    columns.push_back(rows);
  }
  std::vector<std::string> crosses;
  Index splits = {0};
  for (size_t r = 0; r < columns[0].size(); ++r) {
    std::vector<std::string> of_row = columns[0][r];
    for (size_t c = 1; c < columns.size(); ++c) {
      std::vector<std::string> longer;
      for (const std::string& begin : of_row) {
        for (const std::string& end : columns[c][r]) longer.push_back(begin + "_X_" + end);
      }
      of_row = longer;
    }
    crosses.insert(crosses.end(), of_row.begin(), of_row.end());
    splits.push_back(static_cast<int64_t>(crosses.size()));
  }
  call.outputs = {Array({static_cast<int64_t>(crosses.size())}), Vector(splits)};
  for (size_t i = 0; i < crosses.size(); ++i) call.outputs[0][static_cast<int64_t>(i)].text = crosses[i];
}

void AddRaggedCross(Suite& suite) {
  const auto attrs = [](const std::string& order, bool hashed = false, int64_t buckets = 0) {
    return AttrMap{{"input_order", order},
                   {"hashed_output", hashed},
                   {"num_buckets", buckets},
                   {"hash_key", int64_t{0xDECAFCAFFE}},
                   {"out_values_type", hashed ? D::kInt64 : D::kString},
                   {"out_row_splits_type", D::kInt64}};
  };
  // A list for each of ragged values and splits; sparse indices, values and shapes; dense values.
  // Not splits of int32, with which TensorFlow 2.21 aborts.
  const Tensor words = Words({"a", "b", "c", "d"}), splits = Longs({0, 1, 3, 3, 4}),
               other_splits = Longs({0, 0, 2, 3, 3});
  const Tensor numbers = Numbers({7, -8, 9}),
               dense = Tensor::From<int64_t>(Shape({4, 2}), {1, 2, 3, 4, 5, 6, 7, 8});
  const Column sparse = Sparse({0, 0, 1, 0, 1, 1, 3, 0}, Words({"p", "q", "r", "s"}), 4, 2);
  const Tensors none;
  OpRecord& record = suite.Op("RaggedCross").Reference(RaggedCross).ShapeDependsOnValues();
  record.Call({Tensors{words}, Tensors{splits}, none, none, none, none}, attrs("R"))
      .Call({Tensors{words, numbers}, Tensors{splits, other_splits}, none, none, none, none}, attrs("RR"))
      .Call({Tensors{words}, Tensors{splits}, none, none, none, Tensors{dense}}, attrs("DR"))
      .Call({Tensors{words}, Tensors{splits}, Tensors{sparse.indices}, Tensors{sparse.values},
             Tensors{sparse.shape}, Tensors{dense}},
            attrs("RSD"))
      .Call({Tensors{words}, Tensors{splits}, Tensors{sparse.indices}, Tensors{sparse.values},
             Tensors{sparse.shape}, none},
            attrs("SR"))
      .Call({none, none, none, none, none, Tensors{dense, dense}}, attrs("DD"));
  record.Hostile({none, none, none, none, none, none}, "no column to cross", attrs(""))
      .Hostile({Tensors{words}, Tensors{splits}, none, none, none, none}, "Invalid input_order 'D'",
               attrs("D"))
      .Hostile({Tensors{words}, Tensors{splits}, none, none, none, none}, "Invalid input_order 'RR'",
               attrs("RR"))
      .Hostile({Tensors{words}, none, none, none, none, none}, "must have the same length", attrs("R"))
      .Hostile({Tensors{words}, Tensors{Longs({0, 5})}, none, none, none, none}, "", attrs("R"))
      .Hostile({Tensors{words}, Tensors{Longs({0, 4, 2})}, none, none, none, none}, "", attrs("R"))
      .Hostile({Tensors{words}, Tensors{Longs({})}, none, none, none, none}, "", attrs("R"))
      .Hostile({Tensors{words, words}, Tensors{splits, Longs({0, 4})}, none, none, none, none},
               "inputs must all have the same batch dimension size", attrs("RR"))
      .Hostile({none, none, Tensors{sparse.indices}, Tensors{sparse.values}, Tensors{Numbers({1, 2})}, none},
               "has row", attrs("S"))
      .Hostile({none, none, none, none, none, Tensors{numbers}}, "only supports inputs with rank=2",
               attrs("D"))
      .OutOfMemory(
          {none, none, Tensors{sparse.indices}, Tensors{sparse.values}, Tensors{Numbers({kWide, 2})}, none},
          attrs("S"));
}

}  // namespace

void AddCrossesRecords(Suite& suite) {
  const char kElsewhere[] = "hashes and texts: tests/interop/ops_interop_test.py";
  const Column words = Sparse({0, 0, 0, 1, 2, 0}, Words({"a", "b", "c"}), 3, 2);
  const Tensor separator = Strings({}, {"_X_"});
  const Tensors none;

  const AttrMap old = {{"hashed_output", false},
                       {"num_buckets", 0},
                       {"hash_key", 1},
                       {"out_type", D::kString},
                       {"internal_type", D::kInt64}};
  struct Op {
    const char* name;
    Tensors options;
    AttrMap attrs;
  };
  const std::vector<Op> ops = {
      {"SparseCross", none, old},
      {"SparseCrossV2", {separator}, {}},
      {"SparseCrossHashed", {Tensor::Scalar<int64_t>(0), Tensor::Scalar(false), Numbers({1, 2})}, {}},
  };
  for (const Op& op : ops) {
    OpRecord& record = suite.Op(op.name).TestedElsewhere(kElsewhere);
    const auto refuse = [&](const std::vector<Column>& sparse, const Tensors& all_dense, const char* error) {
      record.Hostile(Inputs(sparse, all_dense, op.options), error, op.attrs);
    };
    refuse({}, {}, "no column to cross");
    refuse({{Numbers({0}), words.values, words.shape}}, {}, "Input indices should be a matrix");
    refuse({{words.indices, Words({"a"}), words.shape}}, {}, "Expected size of values to be 3");
    refuse({{words.indices, words.values, Numbers({3})}}, {}, "shape should imply a 2D tensor");
    refuse({words, Sparse({0, 0}, Numbers({1}), 4, 1)}, {}, "Expected batch size 3 got 4 at position 1");
    refuse({words}, {Tensor::From<int64_t>(Shape({2, 1}), {1, 2})}, "Expected batch size 3 got 2");
    refuse({words}, {Numbers({1, 2, 3})}, "Dense inputs should be a matrix");
    refuse({Sparse({3, 0}, Numbers({1}), 3, 1)}, {}, "has row 3");
    refuse({Sparse({-1, 0}, Numbers({1}), 3, 1)}, {}, "has row -1");
    refuse({Sparse({1, 0, 0, 0}, Numbers({1, 2}), 3, 1)}, {}, "rows must be in order");
    refuse({Sparse({}, Numbers({}), -1, 1)}, {}, "Expected batch size -1");
    // Few bytes: 2 to the 70th combinations, and a number that fits, of 2^40.
    const std::vector<Column> pairs(70, Sparse({0, 0, 0, 1}, Numbers({1, 2}), 1, 2));
    refuse(pairs, {}, "more combinations than an int64 can count");
    record.OutOfMemory(Inputs({pairs.begin(), pairs.begin() + 40}, {}, op.options), op.attrs);
    // N columns without values: the inputs are fewer than N says.
    const Tensors three(3, words.indices), shapes(3, words.shape);
    std::vector<CaseInput> inputs = {three, Tensors{}, shapes, Tensors{}};
    inputs.insert(inputs.end(), op.options.begin(), op.options.end());
    record.Hostile(std::move(inputs), "Expected 3 input values, got 0", op.attrs);
  }
  suite.Op("SparseCrossV2").Hostile(Inputs({words}, {}, {Words({"x"})}), "separator should be a scalar");
  const Tensor zero = Tensor::Scalar<int64_t>(0), no = Tensor::Scalar(false);
  suite.Op("SparseCrossHashed")
      .Hostile(Inputs({words}, {}, {zero, no, Numbers({1})}), "must have length 2")
      .Hostile(Inputs({words}, {}, {zero, Bools({1}, {1}), Numbers({1, 2})}), "strong_hash must be a scalar")
      .Hostile(Inputs({words}, {}, {Numbers({1, 2}), no, Numbers({1, 2})}), "num_buckets");
  AddRaggedCross(suite);
}

}  // namespace weir::conformance
