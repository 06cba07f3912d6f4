// What machines hear with: spectrograms of sound, and cepstra of these.
#include <cstdint>
#include <limits>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status SpectrogramShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 2));
  const auto window = s.attr<int64_t>("window_size"), stride = s.attr<int64_t>("stride");
  if (window < 2 || window > std::numeric_limits<int32_t>::max() || stride < 1) {
    return InvalidArgumentError(
        StrCat("Spectrogram initialization failed for window size ", window, " and stride ", stride));
  }
  int64_t length = 1;
  while (length < window) length *= 2;
  int64_t slices = kUnknown, channels = kUnknown;
  if (input.has_rank()) {
    channels = input.dim(1);
    if (input.dim(0) != kUnknown) slices = input.dim(0) < window ? 0 : 1 + (input.dim(0) - window) / stride;
  }
  return SetOutputDims(s, 0, {channels, slices, 1 + length / 2});
}

Status CepstrumShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 3));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  const auto count = s.attr<int64_t>("dct_coefficient_count");
  if (count < 1) return InvalidArgumentError(StrCat("dct_coefficient_count must be positive, is ", count));
  const bool has_rank = input.has_rank();
  return SetOutputDims(s, 0, {has_rank ? input.dim(0) : kUnknown, has_rank ? input.dim(1) : kUnknown, count});
}

}  // namespace

std::vector<OpDef> AudioOps() {
  return {
      {.name = "AudioSpectrogram",
       .summary = "Gives the magnitudes of the frequencies in windows of sound [samples, channels], as "
                  "[channels, windows, frequencies].",
       .infer_shapes = SpectrogramShape,
       .gradient = NotDifferentiable},
      {.name = "Mfcc",
       .summary = "Gives the first coefficients of the cosine transform of the logarithms of a spectrogram's "
                  "sums over bands of the mel scale.",
       .infer_shapes = CepstrumShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
