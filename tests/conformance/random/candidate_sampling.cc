// Candidate samplers: their classes are compared with TensorFlow's in tensorflow_test.py; here is what they
// refuse.
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using reference::Call;

void Hits(Call& call) {
  Index rows, places;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    int64_t place = -1;
    for (int64_t k = 0; k < call.in(1).size(); ++k) {
      if (call.in(1)[k].integer() == call.in(0)[i].integer()) place = k;
    }
    if (place < 0) continue;
    rows.push_back(i / call.integer("num_true"));
    places.push_back(place);
  }
  call.outputs[0] = Vector(rows);
  call.outputs[1] = Vector(places);
  call.outputs[2] =
      Array({static_cast<int64_t>(rows.size())}, -static_cast<double>(std::numeric_limits<float>::max()));
}

}  // namespace

void AddCandidateSamplingRecords(Suite& suite) {
  const Tensor classes = Make(D::kInt64, {2, 1}, {1, 2});
  const AttrMap attrs = {{"num_true", 1}, {"num_sampled", 3}, {"unique", true}, {"range_max", 5}};
  const auto with = [&](const char* name, int64_t value) {
    AttrMap changed = attrs;
    changed[name] = value;
    return changed;
  };
  for (const char* op : {"UniformCandidateSampler", "LogUniformCandidateSampler",
                         "LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"}) {
    AttrMap many = with("num_sampled", kWide);
    many["unique"] = false;
    suite.Op(op)
        .TestedElsewhere("random numbers: tests/conformance/tensorflow_test.py")
        .Hostile({Longs({1, 2})}, "true_classes must", attrs)
        .Hostile({Make(D::kInt64, {1, 2}, {1, 2})}, "must have num_true columns", attrs)
        .Hostile({classes}, "Sampler's range is too small", with("num_sampled", 6))
        .Hostile({Make(D::kInt64, {2, 1}, {1, 5})}, "a true class is 5, must be in [0, 5)", attrs)
        .Hostile({Make(D::kInt64, {2, 1}, {1, -1})}, "a true class is -1", attrs)
        .OutOfMemory({classes}, many);
  }
  for (const char* op : {"LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"}) {
    suite.Op(op).Hostile({classes}, "must be below 2^31 - 1", with("range_max", kWide));
  }
  const AttrMap fixed = {{"num_true", 1},
                         {"num_sampled", 3},
                         {"unique", true},
                         {"range_max", 5},
                         {"unigrams", std::vector<float>{1, 2, 3, 4, 5}}};
  const auto fixed_with = [&](const char* name, AttrValue value) {
    AttrMap changed = fixed;
    changed[name] = std::move(value);
    return changed;
  };
  AttrMap many = fixed_with("num_sampled", kWide);
  many["unique"] = false;
  OpRecord& record = suite.Op("FixedUnigramCandidateSampler");
  record.TestedElsewhere("random numbers: tests/conformance/tensorflow_test.py")
      .Hostile({Longs({1, 2})}, "true_classes must", fixed)
      .Hostile({Make(D::kInt64, {1, 2}, {1, 2})}, "must have num_true columns", fixed)
      .Hostile({classes}, "Sampler's range is too small", fixed_with("num_sampled", int64_t{6}))
      .OutOfMemory({classes}, many);
  for (const double outside : {5.0, -1.0}) {
    record.Hostile({Make(D::kInt64, {2, 1}, {1, outside})}, "must be in [0, 5)", fixed);
  }
  const auto refuse = [&](const char* name, AttrValue value, const char* error) {
    record.Hostile({classes}, error, fixed_with(name, std::move(value)));
  };
  refuse("unigrams", std::vector<float>{}, "Must provide either vocab_file or unigrams.");
  refuse("vocab_file", std::string("words"), "Must only provide one of vocab_file and unigrams.");
  refuse("unigrams", std::vector<float>{1, 2, 3}, "range is 5 must be equal to weights size  3");
  refuse("unigrams", std::vector<float>(7, 1.0f), "there are more weights");
  refuse("unigrams", std::vector<float>{0, 0, 0, 0, 0}, "all weights of classes are 0");
  refuse("unigrams", std::vector<float>{0, 0, 0, 1, 1}, "Sampler's range is too small");
  refuse("unigrams", std::vector<float>{1, 1, -1, 1, 1}, "weights of classes must not be negative");
  refuse("unigrams", std::vector<float>{1, 1, std::nanf(""), 1, 1},
         "weights of classes must not be negative");
  refuse("num_reserved_ids", int64_t{-1}, "num_reserved_ids is -1");
  refuse("num_reserved_ids", kLongest, "num_reserved_ids is");
  refuse("shard", int64_t{1}, "range is 5 must be equal to weights size  0");
  refuse("range_max", kWide, "must be below 2^31");
  AttrMap from_file = fixed_with("unigrams", std::vector<float>{});
  from_file["vocab_file"] = std::string("/no/such/file");
  record.Hostile({classes}, "/no/such/file", from_file, absl::StatusCode::kNotFound);
  const AttrMap all = {{"num_true", 1}, {"num_sampled", 3}, {"unique", true}};
  suite.Op("AllCandidateSampler")
      .TestedElsewhere("state: tests/conformance/tensorflow_test.py")
      .Hostile({Longs({1, 2})}, "true_classes must", all)
      .Hostile({Make(D::kInt64, {2, 1}, {1, -1})}, "a true class is -1, must be in [0,", all)
      .OutOfMemory({classes}, {{"num_true", 1}, {"num_sampled", kWide}, {"unique", true}});

  OpRecord& hits = suite.Op("ComputeAccidentalHits").Reference(Hits).NoGradient();
  hits.ShapeDependsOnValues();
  hits.Call({Make(D::kInt64, {3, 2}, {1, 2, 7, 3, 2, 2}), Longs({2, 5, 1, 2})}, {{"num_true", 2}})
      .Call({Make(D::kInt64, {0, 2}, {}), Longs({2})}, {{"num_true", 2}})
      .Hostile({Longs({1}), Longs({2})}, "true_c", {{"num_true", 1}})
      .Hostile({classes, Longs({2})}, "num_true", {{"num_true", 2}})
      .Hostile({classes, classes}, "sampled_candidates must", {{"num_true", 1}});
}

}  // namespace weir::conformance
