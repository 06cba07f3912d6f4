// Random numbers: TensorFlow's Philox streams, so equal seeds give equal numbers. seed = seed2 = 0 means a
// new stream in every session.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/random/seeds.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status ShapeFromInput(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 0));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

OpDef FloatSampler(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ShapeFromInput,
          .gradient = NotDifferentiable};
}

OpDef StatelessSampler(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_RETURN_IF_ERROR(CheckSeed(s, 1));
            for (int i = 2; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
            return ShapeFromInput(s);
          },
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> RandomOps() {
  return {
      FloatSampler("RandomUniform", "Gives numbers evenly distributed over [0, 1)."),
      FloatSampler("RandomStandardNormal", "Gives normally distributed numbers with mean 0 and deviation 1."),
      FloatSampler(
          "TruncatedNormal",
          "Gives normally distributed numbers with mean 0 and deviation 1, drawn again beyond 2 deviations."),
      {.name = "RandomUniformInt",
       .summary = "Gives integers evenly distributed over [minval, maxval).",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
         WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
         return ShapeFromInput(s);
       },
       .gradient = NotDifferentiable},
      StatelessSampler("StatelessRandomUniform",
                       "Gives numbers evenly distributed over [0, 1), the same for the same seed."),
      StatelessSampler("StatelessRandomNormal",
                       "Gives normally distributed numbers, the same for the same seed."),
      StatelessSampler("StatelessTruncatedNormal",
                       "Gives normally distributed numbers up to 2 deviations, the same for the same seed."),
      StatelessSampler(
          "StatelessRandomUniformInt",
          "Gives integers evenly distributed over [minval, maxval), the same for the same seed."),
      StatelessSampler(
          "StatelessRandomUniformFullInt",
          "Gives integers evenly distributed over all of their dtype, the same for the same seed."),
  };
}

}  // namespace weir
