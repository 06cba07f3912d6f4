// EditDistance, by its recursive definition.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using Sequence = std::vector<Value>;

// Place -> what stands there.
std::map<Index, Sequence> SequencesOf(const Call& call, int first) {
  std::map<Index, Sequence> sequences;
  const Array& indices = call.in(first);
  const int64_t rank = indices.dim(1);
  for (int64_t i = 0; i < indices.dim(0); ++i) {
    Index place;
    for (int64_t k = 0; k + 1 < rank; ++k) place.push_back(indices[i * rank + k].integer());
    sequences[place].push_back(call.in(first + 1)[i]);
  }
  return sequences;
}

int64_t Distance(const Sequence& a, size_t i, const Sequence& b, size_t j) {
  if (i == a.size()) return static_cast<int64_t>(b.size() - j);
  if (j == b.size()) return static_cast<int64_t>(a.size() - i);
  const bool are_equal = a[i].number == b[j].number && a[i].text == b[j].text;
  return std::min({Distance(a, i + 1, b, j) + 1, Distance(a, i, b, j + 1) + 1,
                   Distance(a, i + 1, b, j + 1) + (are_equal ? 0 : 1)});
}

void EditDistance(Call& call) {
  auto hypotheses = SequencesOf(call, 0), truths = SequencesOf(call, 3);
  Index dims;
  const Index h_shape = call.in(2).integers(), t_shape = call.in(5).integers();
  for (size_t i = 0; i + 1 < t_shape.size(); ++i) dims.push_back(std::max(h_shape[i], t_shape[i]));
  call.outputs[0] = Generate(dims, [&](const Index& at) {
    const Sequence &hypothesis = hypotheses[at], &truth = truths[at];
    const auto distance = static_cast<double>(Distance(hypothesis, 0, truth, 0));
    if (!call.flag("normalize") || distance == 0) return Value(distance);
    return Value(truth.empty() ? kInfinity : distance / static_cast<double>(truth.size()));
  });
}

Tensor Places(const std::vector<Index>& rows) {
  Index flat;
  for (const Index& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return Make(D::kInt64,
              {static_cast<int64_t>(rows.size()), rows.empty() ? 2 : static_cast<int64_t>(rows[0].size())},
              {flat.begin(), flat.end()});
}

Tensor Values(D dtype, const std::vector<double>& values) {
  if (dtype != D::kString) return Make(dtype, {static_cast<int64_t>(values.size())}, values);
  std::vector<std::string> words;
  for (const double value : values) words.push_back("word " + std::to_string(value));
  return Words(words);
}

}  // namespace

void AddEditDistanceRecords(Suite& suite) {
  OpRecord& record = suite.Op("EditDistance").Reference(EditDistance);
  record.NoKernelFor("T", kComplexes, "TensorFlow's kernels have none");
  const Tensor h_places = Places({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {3, 1}, {3, 2}});
  const Tensor t_places = Places({{0, 0}, {0, 1}, {2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}});
  std::vector<D> types = kOrdered;
  types.insert(types.end(), {D::kBool, D::kString});
  for (const D d : types) {
    const Tensor h = Values(d, {1, 0, 1, 1, 0, 1}), t = Values(d, {1, 1, 0, 1, 1, 0, 0});
    for (const bool normalize : {false, true}) {
      record.Call({h_places, h, Longs({4, 3}), t_places, t, Longs({4, 3})}, {{"normalize", normalize}});
    }
  }
  const Tensor one = Values(D::kInt32, {1}), first = Places({{0, 0}}), shape = Longs({2, 2});
  record.Call({Places({{0, 1, 0}, {1, 0, 0}}), Longs({1, 2}), Longs({2, 2, 1}), Places({{1, 0, 1}}),
               Longs({2}), Longs({2, 3, 2})});
  record.Call({Places({}), Values(D::kInt32, {}), shape, Places({}), Values(D::kInt32, {}), Longs({3, 1})});

  const auto hostile = [&](std::vector<CaseInput> hypothesis, std::vector<CaseInput> truth,
                           std::string error) {
    hypothesis.insert(hypothesis.end(), truth.begin(), truth.end());
    record.Hostile(hypothesis, std::move(error));
  };
  const std::vector<CaseInput> good = {first, one, shape};
  hostile({Longs({0, 0}), one, shape}, good, "hypothesis_indices should be a matrix, but got shape: [2]");
  hostile(good, {first, Int(1), shape}, "truth_values should be a vector, but got shape: []");
  hostile(good, {first, one, Make(D::kInt64, {1, 2}, {2, 2})}, "truth_shape should be a vector");
  hostile({first, Ints({1, 2}), shape}, good,
          "Expected hypothesis_values.NumElements == #rows(hypothesis_indices)");
  hostile({first, one, Longs({2, 2, 2})}, good,
          "Expected hypothesis_shape.NumElements == #cols(hypothesis_indices)");
  hostile({Places({{0}}), one, Longs({2})}, {Places({{0}}), one, Longs({2})}, "must have rank at least 2");
  hostile({Places({{0, 0, 0}}), one, Longs({2, 2, 2})}, good, "to have matching ranks");
  hostile({Places({}), Ints({}), Longs({0, 2})}, {Places({}), Ints({}), Longs({0, 2})},
          "Got output shape [0] which has 0 elements");
  hostile({Places({}), Ints({}), Longs({-1, 2})}, {Places({}), Ints({}), Longs({-1, 2})},
          "Dimension -1 must be >= 0");
  for (const int64_t place : {int64_t{2}, int64_t{-1}, kLongest, kShortest}) {
    hostile({Places({{place, 0}}), one, shape}, good, "which would require writing to outside of the buffer");
    hostile(good, {Places({{place, 0}}), one, shape}, "Got an inner product");
  }
  record.OutOfMemory({first, one, Longs({kWide, 2}), first, one, shape});
}

}  // namespace weir::conformance
