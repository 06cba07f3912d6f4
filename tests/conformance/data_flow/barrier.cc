// Barriers: what their ops refuse. tests/interop/data_ops_interop_test.py has the rest.
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddBarrierRecords(Suite& suite) {
  constexpr char kWhere[] = "state: tests/interop/data_ops_interop_test.py";
  const std::vector<DType> types = {DType::kInt64};
  const auto barrier = [&](std::vector<PartialShape> shapes, int64_t capacity) {
    return AttrMap{{"component_types", types},
                   {"shapes", std::move(shapes)},
                   {"capacity", capacity},
                   {"container", ""},
                   {"shared_name", ""}};
  };
  suite.Op("Barrier")
      .TestedElsewhere(kWhere)
      .Hostile({}, "All of the component shapes must be specified", barrier({}, -1))
      .Hostile({}, "All of the component shapes must be specified", barrier({PartialShape({-1})}, -1))
      .Hostile({}, "Barrier only accepts capacity=-1", barrier({PartialShape({2})}, 4));
  const Tensor missing = Strings({2}, {"", "nowhere"}), three = Strings({3}, {"", "a", "b"});
  const auto refuse = [&](const char* op, std::vector<CaseInput> others, const AttrMap& attrs) {
    OpRecord& record = suite.Op(op).TestedElsewhere(kWhere);
    std::vector<CaseInput> inputs = {three};
    inputs.insert(inputs.end(), others.begin(), others.end());
    record.Hostile(inputs, "container and a name", attrs);
    inputs[0] = missing;
    record.Hostile(inputs, "nowhere", attrs, absl::StatusCode::kNotFound);
  };
  refuse("BarrierInsertMany", {Strings({1}, {"k"}), Longs({1})}, {{"component_index", 0}});
  refuse("BarrierTakeMany", {Int(1)}, {{"component_types", types}});
  refuse("BarrierClose", {}, {});
  refuse("BarrierReadySize", {}, {});
  refuse("BarrierIncompleteSize", {}, {});
}

}  // namespace weir::conformance
