// Connectionist temporal classification, by its definition: all paths that say the labels.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using Path = std::vector<int64_t>;

// What a path of classes says: repetitions merged unless a blank is between them, then blanks left out.
Path Said(const Path& path, int64_t blank, bool merges) {
  Path said;
  for (size_t t = 0; t < path.size(); ++t) {
    if (path[t] == blank) continue;
    if (merges && t > 0 && path[t] == path[t - 1]) continue;
    said.push_back(path[t]);
  }
  return said;
}

double Softmax(const Array& x, int64_t t, int64_t b, int64_t c) {
  double sum = 0;
  for (int64_t k = 0; k < x.dim(2); ++k) sum += std::exp(x.at({t, b, k}).real());
  return std::exp(x.at({t, b, c}).real()) / sum;
}

Path LabelsOf(const Call& call, int64_t batch) {
  Path labels;
  for (int64_t i = 0; i < call.in(2).size(); ++i)
    if (call.in(1)[2 * i].integer() == batch) labels.push_back(call.in(2)[i].integer());
  return labels;
}

// The labels that count: without those of no class and, if asked, repetitions.
Path Cleaned(const Path& labels, int64_t blank, bool collapses) {
  Path clean;
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < blank && !(collapses && i > 0 && labels[i] == labels[i - 1])) clean.push_back(labels[i]);
  return clean;
}

// The next path in the order of numbers; false after the last one.
bool Next(Path& path, int64_t classes) {
  for (int64_t& c : path) {
    if (++c < classes) return true;
    c = 0;
  }
  return false;
}

void Loss(Call& call) {
  const Array& x = call.in(0);
  const int64_t classes = x.dim(2), blank = classes - 1;
  const bool merges = call.flag("ctc_merge_repeated");
  call.outputs = {Array({x.dim(1)}), Array(x.dims())};
  for (int64_t b = 0; b < x.dim(1); ++b) {
    const Path given = LabelsOf(call, b),
               labels = Cleaned(given, blank, call.flag("preprocess_collapse_repeated"));
    const int64_t times = call.in(3)[b].integer();
    if (static_cast<int64_t>(given.size()) > times) continue;
    double total = 0;
    Array said(x.dims());  // the probability of all paths through a class at a time
    Path path(times);
    do {
      if (Said(path, blank, merges) != labels) continue;
      double probability = 1;
      for (int64_t t = 0; t < times; ++t) probability *= Softmax(x, t, b, path[t]);
      total += probability;
      for (int64_t t = 0; t < times; ++t) said.at({t, b, path[t]}).number += probability;
    } while (Next(path, classes));
    call.outputs[0][b] = -std::log(total);
    for (int64_t t = 0; t < times; ++t)
      for (int64_t c = 0; c < classes; ++c)
        call.outputs[1].at({t, b, c}) =
            Softmax(x, t, b, c) - (total == 0 ? 0 : said.at({t, b, c}).real() / total);
  }
}

void Greedy(Call& call) {
  const Array& x = call.in(0);
  const int64_t classes = x.dim(2);
  const int64_t blank = (call.integer("blank_index") + classes) % classes;
  std::vector<Value> places, values;
  Array log_probability({x.dim(1), 1});
  int64_t longest = 0;
  for (int64_t b = 0; b < x.dim(1); ++b) {
    Path path;
    for (int64_t t = 0; t < call.in(1)[b].integer(); ++t) {
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c)
        if (x.at({t, b, c}).real() > x.at({t, b, best}).real()) best = c;
      path.push_back(best);
      log_probability[b].number -= x.at({t, b, best}).number;
    }
    const Path said = Said(path, blank, call.flag("merge_repeated"));
    for (size_t i = 0; i < said.size(); ++i) {
      places.insert(places.end(), {Value(static_cast<double>(b)), Value(static_cast<double>(i))});
      values.push_back(static_cast<double>(said[i]));
    }
    longest = std::max(longest, static_cast<int64_t>(said.size()));
  }
  const auto count = static_cast<int64_t>(values.size());
  call.outputs = {Generate({count, 2}, [&](const Index& at) { return places[2 * at[0] + at[1]]; }),
                  Generate({count}, [&](const Index& at) { return values[at[0]]; }),
                  Vector({x.dim(1), longest}), log_probability};
}

// The probabilities of all sequences of labels, by all ways to say them. With as wide a beam nothing is left
// out.
void BeamSearch(Call& call) {
  const Array& x = call.in(0);
  const int64_t classes = x.dim(2), blank = classes - 1, count = call.integer("top_paths");
  std::vector<std::vector<Value>> places(count), values(count);
  std::vector<int64_t> longest(count, 0);
  Array log_probability({x.dim(1), count});
  for (int64_t b = 0; b < x.dim(1); ++b) {
    const int64_t length = std::max<int64_t>(call.in(1)[b].integer(), 0);
    std::map<Path, double> probabilities;
    Path path(length, 0);
    for (bool is_done = false; !is_done;) {
      double probability = 1;
      for (int64_t t = 0; t < length; ++t) {
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(x.at({t, b, c}).real());
        probability *= std::exp(x.at({t, b, path[t]}).real()) / sum;
      }
      probabilities[Said(path, blank, true)] += probability;
      is_done = true;
      for (int64_t t = 0; is_done && t < length; ++t) {
        path[t] = (path[t] + 1) % classes;
        is_done = path[t] == 0;
      }
    }
    std::vector<std::pair<double, Path>> best;
    for (const auto& [said, probability] : probabilities) best.emplace_back(-probability, said);
    std::sort(best.begin(), best.end());
    for (int64_t p = 0; p < count; ++p) {
      const Path said = Said(best[p].second, blank, call.flag("merge_repeated"));
      for (size_t i = 0; i < said.size(); ++i) {
        places[p].insert(places[p].end(), {Value(static_cast<double>(b)), Value(static_cast<double>(i))});
        values[p].push_back(static_cast<double>(said[i]));
      }
      longest[p] = std::max(longest[p], static_cast<int64_t>(said.size()));
      log_probability.at({b, p}) = std::log(-best[p].first);
    }
  }
  call.outputs.assign(3 * count, Array());
  for (int64_t p = 0; p < count; ++p) {
    const auto size = static_cast<int64_t>(values[p].size());
    call.outputs[p] = Generate({size, 2}, [&](const Index& at) { return places[p][2 * at[0] + at[1]]; });
    call.outputs[count + p] = Generate({size}, [&](const Index& at) { return values[p][at[0]]; });
    call.outputs[2 * count + p] = Vector({x.dim(1), longest[p]});
  }
  call.outputs.push_back(log_probability);
}

Tensor Places(const std::vector<int64_t>& flat) {
  return Make(D::kInt64, {static_cast<int64_t>(flat.size()) / 2, 2}, {flat.begin(), flat.end()});
}

void AddLoss(Suite& suite) {
  OpRecord& record = suite.Op("CTCLoss").Reference(Loss);
  const Tensor places = Places({0, 0, 0, 1, 1, 0});
  const auto call = [&](D d, std::vector<int32_t> labels, std::vector<int32_t> lengths, AttrMap attrs = {}) {
    return OpCase{.attrs = std::move(attrs),
                  .inputs = {Sample(d, {5, 2, 3}), places, Ints(std::move(labels)), Ints(std::move(lengths))},
                  .gradient_outputs = {0},
                  .tolerance = d == D::kFloat32 ? 1e-5 : 1e-7};  // TensorFlow's is computed in float
  };
  for (const D d : {D::kFloat32, D::kFloat64}) {
    record.Call(call(d, {0, 1, 1}, {5, 4})).Call(call(d, {1, 1, 0}, {4, 1}));
    record.Call(call(d, {1, 1, 0}, {5, 5}, {{"preprocess_collapse_repeated", true}}));
    record.Call(call(d, {1, 1, 0}, {5, 3}, {{"ctc_merge_repeated", false}}));
    record.Call(call(d, {0, 0, 1}, {1, 3}, {{"ignore_longer_outputs_than_inputs", true}}));
    record.Call(call(d, {0, 2, 2}, {5, 3})).Call(call(d, {0, 7, 2}, {2, 3}));
    record.NoGradient().Call(call(d, {1, 1, 0}, {2, 3}));  // no path says 1 twice in two steps
  }
  const Tensor x = Floats({5, 2, 3}), labels = Ints({0, 1, 1}), lengths = Ints({5, 4});
  record.Hostile({Floats({5, 2}), places, labels, lengths}, "inputs is not a 3-Tensor");
  record.Hostile({x, places, labels, Int(5)}, "sequence_length is not a vector");
  record.Hostile({x, places, labels, Ints({5})},
                 "len(sequence_length) != batch_size.  len(sequence_length):  1 batch_size: 2");
  record.Hostile({x, places, labels, Ints({5, 6})}, "sequence_length(1) <= 5");
  record.Hostile({x, places, labels, Ints({5, -1})}, "seq_len(1) < 0");
  record.Hostile({x, Longs({0, 0}), Ints({1}), lengths}, "labels_indices is not a matrix");
  record.Hostile({x, places, Int(1), lengths}, "labels_values is not a vector");
  record.Hostile({x, places, Ints({1, 1}), lengths},
                 "must contain the same number of rows, but saw shapes: [3,2] vs. [2]");
  record.Hostile({Empty({0, 2, 3}), places, labels, Ints({0, 0})},
                 "Max time or first dimension of input cannot be 0.");
  record.Hostile({Empty({5, 0, 3}), Places({}), Ints({}), Ints({})}, "batch_size must not be 0");
  record.Hostile({Empty({5, 2, 0}), places, labels, lengths}, "num_classes must not be 0");
  record.Hostile({x, Places({0, 0, 0, 1, 7, 0}), labels, lengths},
                 "label SparseTensor is not valid: indices[2] = [7,0] is out of bounds");
  record.Hostile({x, Places({-1, 0, 0, 1, 1, 0}), labels, lengths}, "indices[0] = [-1,0] is out of bounds");
  record.Hostile({x, Places({1, 0, 0, 0, 0, 1}), labels, lengths}, "indices[1] = [0,0] is out of order");
  record.Hostile({x, Places({0, 0, 0, 0, 1, 1}), labels, lengths}, "is repeated");
  record.Hostile({x, places, Ints({0, 1, -1}), lengths},
                 "All labels must be nonnegative integers, batch: 1 labels: -1");
  record.Hostile({x, places, Ints({2, 1, 1}), lengths},
                 "Saw a non-null label (index >= num_classes - 1) following a null label, batch: 0");
  record.Hostile({x, Places({0, 0}), Ints({0}), lengths}, "Labels length is zero in batch 1");
  record.Hostile({x, places, labels, Ints({1, 4})},
                 "Not enough time for target transition sequence (required: 2, available: 1)0");
}

void AddGreedy(Suite& suite) {
  OpRecord& record = suite.Op("CTCGreedyDecoder").Reference(Greedy).ShapeDependsOnValues();
  for (const D d : {D::kFloat32, D::kFloat64}) {
    for (const bool merges : {false, true}) {
      for (const int64_t blank : {-1, 0, -4, 2}) {
        record.Call({Sample(d, {9, 3, 4}), Ints({9, 4, 0})},
                    {{"merge_repeated", merges}, {"blank_index", blank}});
      }
    }
    record.Call({Make(d, {2, 1, 3}, {1, 1, 0, 0, 2, 2}), Ints({2})});  // ties
    record.Call({Sample(d, {2, 1, 3}), Ints({-3})});
  }
  const Tensor x = Floats({5, 2, 3});
  const auto precondition = absl::StatusCode::kFailedPrecondition;
  record.Hostile({Floats({5, 2}), Ints({5, 4})}, "inputs is not a 3-Tensor");
  record.Hostile({x, Int(5)}, "sequence_length is not a vector");
  record.Hostile({x, Ints({5})}, "len(sequence_length) != batch_size");
  record.Hostile({x, Ints({6, 1})}, "sequence_length(0) <= 5", {}, precondition);
  for (const std::vector<int64_t>& dims : std::vector<Index>{{0, 2, 3}, {5, 0, 3}, {5, 2, 0}})
    record.Hostile({Empty(dims), Sizes(Index(dims[1], 0))}, "inputs must not be empty");
  for (const int64_t blank : {int64_t{3}, int64_t{-4}, kLongest, kShortest}) {
    record.Hostile({x, Ints({5, 4})}, "blank_index expected to be between -3 and 2 but was ",
                   {{"blank_index", blank}});
  }
}

AttrMap BeamAttrs(int64_t width, int64_t paths, bool merges = true) {
  return {{"beam_width", width}, {"top_paths", paths}, {"merge_repeated", merges}};
}

// Narrower beams are compared in tensorflow_test.py.
void AddBeamSearch(Suite& suite) {
  OpRecord& record = suite.Op("CTCBeamSearchDecoder").Reference(BeamSearch).ShapeDependsOnValues();
  for (const D d : {D::kFloat32, D::kFloat64}) {
    record.Tolerance(d == D::kFloat32 ? 1e-5 : 1e-7);  // TensorFlow's sums are computed in float
    for (const bool merges : {false, true}) {
      record.Call({Sample(d, {5, 3, 3}), Ints({5, 4, 2})}, BeamAttrs(200, 3, merges));
      record.Call({Sample(d, {4, 2, 4}, -3, 3, 2), Ints({4, 3})}, BeamAttrs(300, 5, merges));
    }
    record.Call({Sample(d, {3, 2, 2}), Ints({0, -2})}, BeamAttrs(1, 1));
    record.Call({Sample(d, {3, 1, 1}), Ints({3})}, BeamAttrs(2, 1));
  }
  const Tensor x = Floats({5, 2, 3}), lengths = Ints({5, 4});
  const AttrMap attrs = BeamAttrs(4, 2);
  record.Hostile({Floats({5, 2}), lengths}, "3", attrs).Hostile({x, Int(5)}, "sequence_length", attrs);
  record.Hostile({x, Ints({5})}, "len(sequence_length) != batch_size", attrs);
  record.Hostile({x, Ints({6, 1})}, "sequence_length(0) <= 5", attrs, absl::StatusCode::kFailedPrecondition);
  record.Hostile({x, Ints({5, 0})}, "Less leaves in the beam search than requested.", attrs);
  record.Hostile({x, lengths}, "requested more paths than the beam width.", BeamAttrs(2, 3));
  for (const std::vector<int64_t>& dims : std::vector<Index>{{0, 2, 3}, {5, 0, 3}, {5, 2, 0}})
    record.Hostile({Empty(dims), Sizes(Index(dims[1], 0))}, "inputs must not be empty", attrs);
  record.Hostile({Sample(D::kFloat32, {9, 1, 200}, -1e-3, 1e-3), Ints({9})},
                 "needs more than 1048576 prefixes at a time", BeamAttrs(kLongest, 1),
                 absl::StatusCode::kResourceExhausted);
}

}  // namespace

void AddCtcRecords(Suite& suite) {
  AddLoss(suite);
  AddGreedy(suite);
  AddBeamSearch(suite);
}

}  // namespace weir::conformance
