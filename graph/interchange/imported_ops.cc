#include "graph/interchange/imported_ops.h"

#include "graph/interchange/function_calls.h"
#include "graph/interchange/references.h"

namespace weir {

std::string OpInPlaceOf(absl::string_view op) { return CounterpartOfReference(op); }

bool IsCallOfFunctions(absl::string_view op) { return KindOfCall(op) != CallKind::kNone; }

}  // namespace weir
