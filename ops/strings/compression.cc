// Strings that hold compressed bytes.
#include <vector>

#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/strings/string_op.h"

namespace weir {

std::vector<OpDef> CompressionOps() {
  return {
      StringOp("DecodeCompressed",
               "Decompresses each string; compression_type is GZIP, ZLIB, or empty for bytes as they are.",
               UnchangedShape),
  };
}

}  // namespace weir
