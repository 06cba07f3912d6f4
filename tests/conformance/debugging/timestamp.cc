// Timestamp.
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddTimestampRecords(Suite& suite) {
  suite.Op("Timestamp").TestedElsewhere("its value is the time: session/timestamp_test.cc").CannotFail();
}

}  // namespace weir::conformance
