// Summaries: what their ops refuse.
#include <cmath>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

Tensor Words(std::vector<std::string> words) {
  const auto count = static_cast<int64_t>(words.size());
  return Strings({count}, std::move(words));
}

void AddScalarSummary(Suite& suite) {
  OpRecord& record =
      suite.Op("ScalarSummary")
          .TestedElsewhere("serialized protocol messages: tests/conformance/io/files_and_checks_test.cc");
  record.Hostile({Words({"a"}), Floats({2})}, "tags is [1] but values is [2]");
}

void AddHistogramSummary(Suite& suite) {
  OpRecord& record =
      suite.Op("HistogramSummary")
          .TestedElsewhere("serialized protocol messages: tests/conformance/io/files_and_checks_test.cc");
  record.Hostile({Words({"a", "b"}), Floats({2})}, "tag must be one string")
      .Hostile({Strings({}, {"a"}), Make(D::kFloat32, {2}, {1, std::nan("")})}, "NaN");
}

void AddMergeSummary(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& record =
      suite.Op("MergeSummary")
          .TestedElsewhere("serialized protocol messages: tests/conformance/io/files_and_checks_test.cc");
  const Tensor summary = Strings({}, {"\n\x03\n\x01"
                                      "a"});  // of the tag alone
  record.Hostile({Tensors{Strings({}, {"\xff\xff"})}}, "summary 0 of those to merge does not parse")
      .Hostile({Tensors{summary, summary}}, "two summaries to merge have the tag 'a'");
}

void AddMedia(Suite& suite) {
  const char kElsewhere[] = "serialized protocol messages: tests/interop/ops_interop_test.py";
  const Tensor tag = Strings({}, {"a"});
  const auto color = [](D d, std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    return AttrMap{{"bad_color", Make(d, {count}, std::move(values))}};
  };
  const AttrMap red = color(D::kUint8, {255, 0, 0, 255});
  suite.Op("ImageSummary")
      .TestedElsewhere(kElsewhere)
      .Hostile({Words({"a", "b"}), Floats({1, 2, 2, 3})}, "", red)
      .Hostile({tag, Floats({2, 2, 3})}, "must be 4-D", red)
      .Hostile({tag, Floats({1, 2, 2, 2})}, "last dim 1, 3, or 4", red)
      .Hostile({tag, Floats({1, 0, 2, 3})}, "no PNG file holds an image of 0 x 2", red)
      .Hostile({tag, Floats({1, 2, 2, 3})}, "bad_color must be", color(D::kUint8, {1, 2}))
      .Hostile({tag, Floats({1, 2, 2, 3})}, "bad_color must be", color(D::kFloat32, {1, 2, 3, 4}));
  const Tensor rate = Make(D::kFloat32, {}, {8000});
  suite.Op("AudioSummaryV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({Words({"a"}), Floats({1, 4}), rate}, "")
      .Hostile({tag, Floats({4}), rate}, "2-D or 3-D")
      .Hostile({tag, Floats({1, 4, 2, 1}), rate}, "2-D or 3-D")
      .Hostile({tag, Floats({1, 4, 0}), rate}, "channels")
      .Hostile({tag, Floats({1, 4}), Floats({2})}, "sample_rate")
      .Hostile({tag, Floats({1, 4}), Make(D::kFloat32, {}, {0})}, "sample_rate")
      .Hostile({tag, Floats({1, 4}), Make(D::kFloat32, {}, {std::nan("")})}, "sample_rate")
      .Hostile({tag, Floats({1, 4}), Make(D::kFloat32, {}, {1e20})}, "sample_rate");
  suite.Op("TensorSummaryV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({Words({"a"}), Floats({2}), tag}, "")
      .Hostile({tag, Floats({2}), Words({"a"})}, "")
      .Hostile({tag, Floats({2}), Strings({}, {"\xff"})}, "SummaryMetadata");
}

}  // namespace

void AddSummariesRecords(Suite& suite) {
  AddMedia(suite);
  AddScalarSummary(suite);
  AddHistogramSummary(suite);
  AddMergeSummary(suite);
}

}  // namespace weir::conformance
