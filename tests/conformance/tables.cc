// The records of ops whose family has no folder here yet.
#include "kernels/reference/reference.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddTables(Suite& suite) {
  for (const auto& [op, reference] : reference::AllReferences()) suite.Op(op).Reference(reference);
  for (OpCase& test : TableOfCases()) {
    const std::string op = test.op;
    suite.Op(op).Call(std::move(test));
  }
  for (HostileCase& test : HostileCases()) {
    suite.Op(test.op).Hostile(std::move(test.inputs), std::move(test.error), std::move(test.attrs),
                              test.code);
  }
  // PlaceholderWithDefault's shape is its attr's: what is fed may differ from the default.
  for (const char* op : {"Where", "BroadcastGradientArgs", "PlaceholderWithDefault"}) {
    suite.Op(op).ShapeDependsOnValues();
  }
  for (const std::string& op : OpsThatCannotFail()) suite.Op(op).CannotFail();
  for (const auto& [op, where] : OpsWithoutCase()) suite.Op(op).TestedElsewhere(where);
  for (const MissingKernel& missing : MissingKernels()) {
    suite.Op(missing.op).NoKernelFor(missing.attr, missing.dtypes, missing.reason);
  }
}

}  // namespace weir::conformance
