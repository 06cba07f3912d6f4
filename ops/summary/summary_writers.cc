// Event files that steps write to.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// Inputs [0, end) are scalars; there are no outputs.
template <int end>
Status ScalarInputs(ShapeInference& s) {
  for (int i = 0; i < end; ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

Status TensorShape(ShapeInference& s) {
  for (const int i : {0, 1, 3, 4}) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

OpDef Writing(std::string name, std::string summary, ShapeFunction infer_shapes) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> SummaryWritersOps() {
  return {
      Writing("SummaryWriter", "Gives the handle of a writer of summaries, which has no file yet.",
              ScalarShape),
      Writing("CreateSummaryFileWriter", "Gives the writer an event file in logdir, unless it has one.",
              ScalarInputs<5>),
      Writing("WriteSummary", "Writes a tensor, and what a plugin of TensorBoard wants to know of it.",
              TensorShape),
      Writing("WriteScalarSummary", "Writes a number.", ScalarInputs<4>),
      Writing("WriteHistogramSummary", "Writes a histogram of numbers.", ScalarInputs<3>),
      Writing("WriteImageSummary", "Writes images as PNG files.", ScalarInputs<3>),
      Writing("WriteAudioSummary", "Writes sounds as WAV files.", ScalarInputs<3>),
      Writing("WriteGraphSummary", "Writes a serialized GraphDef.", ScalarInputs<3>),
      Writing("WriteRawProtoSummary", "Writes the values of serialized Summary messages.", ScalarInputs<2>),
      Writing("ImportEvent", "Writes a serialized Event message as it is.", ScalarInputs<2>),
      Writing("FlushSummaryWriter", "Returns when what was written is in the file.", ScalarInputs<1>),
      Writing("CloseSummaryWriter", "Flushes and closes the file; the writer has none then.",
              ScalarInputs<1>),
  };
}

}  // namespace weir
