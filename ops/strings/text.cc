// Numbers as text, and text as numbers.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/strings/string_op.h"

namespace weir {
std::vector<OpDef> TextOps() {
  return {
      StringOp("AsString", "Writes each number as C's printf does.", UnchangedShape),
      StringOp("StringToNumber", "Reads the number that each string is.", UnchangedShape),
      StringOp("StringFormat",
               "Writes `template` with each placeholder replaced by a tensor, of whose long dimensions only "
               "`summarize` elements at both ends appear.",
               ScalarShape),
  };
}

}  // namespace weir
