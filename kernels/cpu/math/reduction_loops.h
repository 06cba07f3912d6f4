// The inner loops of reductions, found by op and dtype once, when a kernel is made.
//
// Accuracy: floating sums run in many partial sums of at most a few hundred terms each, so that the error
// grows with the number of blocks and not of elements. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/dtype.h"

namespace weir {

struct ReductionRow {
  const char* op;  // "Sum", "Prod", "Max", "Min", "All", "Any", "L2Loss" (sum of squares; `inner` only)
  DType dtype;
  // out[r] = the reduction of in[r * n] ... in[r * n + n - 1], for every r below rows. n may be 0.
  void (*inner)(const void* in, int64_t rows, int64_t n, void* out);
  // out[c] = the reduction of in[r * n + c] over every r below rows, for c in [begin, end). rows may be 0.
  void (*outer)(const void* in, int64_t rows, int64_t n, int64_t begin, int64_t end, void* out);
};

absl::Span<const ReductionRow> FloatReductions();  // for the instruction set of this processor
absl::Span<const ReductionRow> OtherReductions();

// Null when there is none.
const ReductionRow* FindReduction(absl::string_view op, DType dtype);

}  // namespace weir
