// Classes and their probabilities: softmax, cross entropies, the k best.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using reference::Reference;
using D = DType;
using List = std::vector<int64_t>;

// log(softmax) of row r of an array whose last dimension is a row.
std::vector<double> LogSoftmaxRow(const Array& logits, int64_t r) {
  const int64_t n = logits.dims().back();
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, logits[r * n + i].real());
  for (int64_t i = 0; i < n; ++i) sum += std::exp(logits[r * n + i].real() - largest);
  std::vector<double> row(n);
  for (int64_t i = 0; i < n; ++i) row[i] = logits[r * n + i].real() - largest - std::log(sum);
  return row;
}

Reference Softmax(bool log) {
  return [log](Call& call) {
    const Array& logits = call.in(0);
    const int64_t n = logits.dims().back();
    call.outputs[0] = Array(logits.dims());
    for (int64_t r = 0; r < logits.size() / n; ++r) {
      const std::vector<double> row = LogSoftmaxRow(logits, r);
      for (int64_t i = 0; i < n; ++i) call.outputs[0][r * n + i] = log ? row[i] : std::exp(row[i]);
    }
  };
}

// Labels as a distribution per row; both cross entropies are this one.
void CrossEntropy(Call& call, const Array& logits,
                  const std::function<double(int64_t row, int64_t i)>& label) {
  const int64_t rows = logits.dim(0), n = logits.dim(1);
  call.outputs[0] = Array({rows});
  call.outputs[1] = Array({rows, n});
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<double> row = LogSoftmaxRow(logits, r);
    for (int64_t i = 0; i < n; ++i) {
      call.outputs[0][r].number -= label(r, i) * row[i];
      call.outputs[1].at({r, i}) = std::exp(row[i]) - label(r, i);
    }
  }
}

void InTopK(Call& call) {
  const Array &predictions = call.in(0), &targets = call.in(1);
  call.outputs[0] = Array(targets.dims());
  for (int64_t r = 0; r < targets.size(); ++r) {
    int64_t better = 0;
    const double own = predictions.at({r, targets[r].integer()}).real();
    for (int64_t i = 0; i < predictions.dim(1); ++i) better += predictions.at({r, i}).real() > own ? 1 : 0;
    call.outputs[0][r] = better < call.in(2)[0].integer() ? 1.0 : 0.0;
  }
}

void AddSoftmax(Suite& suite) {
  OpRecord& record = suite.Op("Softmax").Reference(Softmax(false));
  for (D d : kReals) {
    record.Call({.inputs = {Sample(d, {3, 10})}, .tolerance = SumTolerance(d)});
  }
  record.Call({.inputs = {Sample(D::kFloat32, {40}, -30, 30)}, .tolerance = 1e-5})
      .Hostile({Floats({})}, "class dimension");
}

void AddLogSoftmax(Suite& suite) {
  OpRecord& record = suite.Op("LogSoftmax").Reference(Softmax(true));
  for (D d : kReals) {
    record.Call({.inputs = {Sample(d, {3, 10})}, .tolerance = SumTolerance(d)});
  }
  record.Call({.inputs = {Sample(D::kFloat32, {2, 2, 17}, -30, 30)}, .tolerance = 1e-5})
      .Hostile({Floats({})}, "class dimension");
}

void AddSoftmaxCrossEntropyWithLogits(Suite& suite) {
  OpRecord& record = suite.Op("SoftmaxCrossEntropyWithLogits").Reference([](Call& call) {
    CrossEntropy(call, call.in(0), [&](int64_t r, int64_t i) { return call.in(1).at({r, i}).real(); });
  });
  for (D d : kReals) {
    record.Call({.inputs = {Sample(d, {3, 10}), Make(d, {3, 10}, {1, 0,   0,   0, 0,  0, 0, 0, 0, 0,  //
                                                                  0, 0,   0,   0, 0,  0, 0, 1, 0, 0,  //
                                                                  0, .25, .25, 0, .5, 0, 0, 0, 0, 0})},
                 .gradient_outputs = {0},
                 .tolerance = SumTolerance(d)});
  }
  record.Hostile({Floats({2, 3}), Floats({3, 2})}, "logits is [2,3] but labels is [3,2]")
      .Hostile({Floats({2, 3}), Floats({2})}, "must be matrices")
      .Hostile({Floats({6}), Floats({6})}, "must be matrices");
}

void AddSparseSoftmaxCrossEntropyWithLogits(Suite& suite) {
  OpRecord& record = suite.Op("SparseSoftmaxCrossEntropyWithLogits").Reference([](Call& call) {
    CrossEntropy(call, call.in(0),
                 [&](int64_t r, int64_t i) { return call.in(1)[r].integer() == i ? 1.0 : 0.0; });
  });
  for (D d : kReals) {
    record.Call({.inputs = {Sample(d, {3, 10}), Ints({0, 9, 4})},
                 .gradient_outputs = {0},
                 .tolerance = SumTolerance(d)});
  }
  record
      .Call({.inputs = {Sample(D::kFloat32, {2, 33}), Longs({32, 5})},
             .gradient_outputs = {0},
             .tolerance = 1e-5})
      .Hostile({Floats({2, 3}), Ints({0, 3})},
               "Received a label value of 3 which is outside the valid range of [0, 3), at example 1")
      .Hostile({Floats({2, 3}), Longs({kShortest, 0})}, "outside the valid range of [0, 3), at example 0")
      .Hostile({Floats({2, 3}), Ints({0})}, "logits must be [batch,classes]")
      .Hostile({Floats({2, 3}), Make(D::kInt32, {2, 1}, {0, 0})}, "logits must be [batch,classes]")
      .Hostile({Floats({2, 0}), Ints({0, 0})}, "outside the valid range of [0, 0)");
}

void AddInTopKV2(Suite& suite) {
  OpRecord& record = suite.Op("InTopKV2").Reference(InTopK);
  for (int k : {1, 2, 3}) {
    record.Call({Sample(D::kFloat32, {4, 3}), Ints({0, 1, 2, 0}), Int(k)});
  }
  record.Hostile({Floats({2, 3}), Ints({0, 1, 2}), Int(1)}, "targets is [3]")
      .Hostile({Floats({6}), Ints({0}), Int(1)}, "predictions must be [batch,classes]")
      .Hostile({Floats({2, 3}), Ints({0, 1}), Ints({})}, "k must be a scalar");
}

}  // namespace

void AddSoftmaxRecords(Suite& suite) {
  AddSoftmax(suite);
  AddLogSoftmax(suite);
  AddSoftmaxCrossEntropyWithLogits(suite);
  AddSparseSoftmaxCrossEntropyWithLogits(suite);
  AddInTopKV2(suite);
}

}  // namespace weir::conformance
