// Combinations of the features of several columns: what their ops refuse. tests/interop compares what they
// give with TensorFlow's.
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
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
  }
  suite.Op("SparseCrossV2").Hostile(Inputs({words}, {}, {Words({"x"})}), "separator should be a scalar");
  const Tensor zero = Tensor::Scalar<int64_t>(0), no = Tensor::Scalar(false);
  suite.Op("SparseCrossHashed")
      .Hostile(Inputs({words}, {}, {zero, no, Numbers({1})}), "must have length 2")
      .Hostile(Inputs({words}, {}, {zero, Bools({1}, {1}), Numbers({1, 2})}), "strong_hash must be a scalar")
      .Hostile(Inputs({words}, {}, {Numbers({1, 2}), no, Numbers({1, 2})}), "num_buckets");
}

}  // namespace weir::conformance
