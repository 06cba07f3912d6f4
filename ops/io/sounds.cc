// Sound in files: WAV.
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The attr of that name, which is -1 where the file decides.
absl::StatusOr<int64_t> Wish(ShapeInference& s, const char* name) {
  const auto wish = s.attr<int64_t>(name);
  if (wish >= -1) return wish == -1 ? kUnknown : wish;
  return InvalidArgumentError(StrCat(name, " must be >= -1, got ", wish));
}

Status DecodedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_ASSIGN_OR_RETURN(const int64_t channels, Wish(s, "desired_channels"));
  WEIR_ASSIGN_OR_RETURN(const int64_t frames, Wish(s, "desired_samples"));
  s.set_output(1, Shape());
  return SetOutputDims(s, 0, {frames, channels});
}

Status EncodedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 2).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  s.set_output(0, Shape());
  return OkStatus();
}

}  // namespace

std::vector<OpDef> SoundsOps() {
  return {
      {.name = "DecodeWav",
       .summary = "Reads the samples of a WAV file of 16 bits, [samples, channels], and their rate.",
       .infer_shapes = DecodedShape,
       .gradient = NotDifferentiable},
      {.name = "EncodeWav",
       .summary = "Gives the samples [samples, channels] as a WAV file of 16 bits.",
       .infer_shapes = EncodedShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
