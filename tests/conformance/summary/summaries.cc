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
  record.Hostile({Words({"a"}), Floats({2})}, "tags is [1] but values is [2]")
      .Hostile({Words({"a", "a"}), Floats({2})}, "two summaries to merge have the tag 'a'");
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
  record.Hostile({Tensors{Strings({}, {"\xff\xff"})}}, "summary 0 of those to merge does not parse");
}

}  // namespace

void AddSummariesRecords(Suite& suite) {
  AddScalarSummary(suite);
  AddHistogramSummary(suite);
  AddMergeSummary(suite);
}

}  // namespace weir::conformance
