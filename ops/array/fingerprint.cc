// Hashes of the bytes of tensors.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// All methods that there are give eight bytes.
Status FingerprintShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape data, s.WithRankAtLeast(0, 1));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  const std::optional<Tensor> method = s.input_constant(1);
  if (method && method->scalar<std::string>() != "farmhash64") {
    return InvalidArgumentError(StrCat("Unsupported fingerprint method: ", method->scalar<std::string>()));
  }
  s.set_output(0, PartialShape({data.has_rank() ? data.dim(0) : kUnknown, 8}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> FingerprintOps() {
  return {
      WithoutGradient(
          "Fingerprint",
          "Gives a hash of the bytes of each row, of which strings are hashed first: eight bytes, "
          "the least significant one first.",
          FingerprintShape),
  };
}

}  // namespace weir
