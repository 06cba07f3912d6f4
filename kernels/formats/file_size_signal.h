// A file that may not grow any more (`ulimit -f`, or the quota of a batch system) as an error of its writer.
#pragma once

namespace weir {

// From now on a write beyond the limit gives EFBIG, and is reported as a full disk is, instead of a SIGXFSZ
// that ends the process without a word. A handler that the program has set stays. For the beginning of a
// program; thread-safe.
void ReportFilesThatMayNotGrow();

}  // namespace weir
