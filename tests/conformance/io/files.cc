// Whole files and their names: what their ops refuse. distributed/allowed_dirs_test.cc and tests/interop have
// the rest.
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddFilesRecords(Suite& suite) {
  constexpr char kWhere[] = "files: distributed/allowed_dirs_test.cc, tests/interop/data_ops_interop_test.py";
  const Tensor name = Tensor::Scalar("/nowhere/at all"), two = Strings({2}, {"a", "b"});
  suite.Op("ReadFile")
      .TestedElsewhere(kWhere)
      .Hostile({two}, "must be scalar, but had shape: [2]")
      .Hostile({name}, "/nowhere/at all", {}, absl::StatusCode::kNotFound);
  suite.Op("WriteFile")
      .TestedElsewhere(kWhere)
      .Hostile({two, name}, "Input filename tensor must be scalar, but had shape: [2]")
      .Hostile({name, two}, "Contents tensor must be scalar, but had shape: [2]");
  suite.Op("MatchingFiles")
      .TestedElsewhere(kWhere)
      .Hostile({Strings({1, 1}, {"*"})}, "must be scalar or vector, but had shape: [1,1]");
}

}  // namespace weir::conformance
