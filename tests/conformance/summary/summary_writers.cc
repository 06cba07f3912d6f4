// Writers of summaries: what their ops refuse. session/summary_writers_test.cc has the rest.
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddSummaryWritersRecords(Suite& suite) {
  const char kElsewhere[] = "files: session/summary_writers_test.cc";
  suite.Op("SummaryWriter").TestedElsewhere(kElsewhere).CannotFail();
  const Tensor step = Tensor::Scalar<int64_t>(1), text = Strings({}, {"a"}), number = Floats({});
  const std::vector<std::pair<std::string, std::vector<CaseInput>>> ops = {
      {"CreateSummaryFileWriter", {text, Int(1), Int(1), text}},
      {"WriteSummary", {step, Floats({2}), text, Strings({}, {""})}},
      {"WriteScalarSummary", {step, text, number}},
      {"WriteHistogramSummary", {step, text, Floats({2})}},
      {"WriteImageSummary", {step, text, Floats({1, 2, 2, 3}), Make(DType::kUint8, {4}, {255, 0, 0, 255})}},
      {"WriteAudioSummary", {step, text, Floats({1, 4}), number}},
      {"WriteGraphSummary", {step, text}},
      {"WriteRawProtoSummary", {step, Strings({2}, {"a", "b"})}},
      {"ImportEvent", {text}},
      {"FlushSummaryWriter", {}},
      {"CloseSummaryWriter", {}},
  };
  for (const auto& [op, others] : ops) {
    const auto inputs = [&others = others](Tensor handle) {
      std::vector<CaseInput> all = {std::move(handle)};
      all.insert(all.end(), others.begin(), others.end());
      return all;
    };
    suite.Op(op)
        .TestedElsewhere(kElsewhere)
        .Hostile(inputs(MissingHandle()), "weights")
        .Hostile(inputs(NoHandles()), "must")
        .Hostile(inputs(HandleOf(Floats({2}))), "must be a handle of a SummaryWriter");
  }
}

}  // namespace weir::conformance
