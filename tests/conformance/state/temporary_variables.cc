// Variables of one step: what their ops refuse. tests/interop/references_interop_test.py has the rest.
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddTemporaryVariablesRecords(Suite& suite) {
  const char kElsewhere[] = "state: session/temporary_variables_test.cc";
  const AttrMap floats = {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}};
  AttrMap large = floats;
  large["shape"] = PartialShape({kWide});
  suite.Op("WeirTemporaryVariable")
      .TestedElsewhere(kElsewhere)
      .Hostile({}, "has a shape that is known", floats)
      .OutOfMemory({}, large);
  suite.Op("WeirDestroyTemporaryVariable")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoHandles()}, "must be", {{"dtype", DType::kFloat32}, {"var_name", "x"}})
      .Hostile({HandleOf(Floats({2}))}, "no TemporaryVariable x",
               {{"dtype", DType::kFloat32}, {"var_name", "x"}}, absl::StatusCode::kNotFound);
}

}  // namespace weir::conformance
