// Candidate samplers: classes drawn for losses over very many of them.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status CheckTrueClasses(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape classes, s.WithRank(0, 2));
  const auto num_true = s.attr<int64_t>("num_true");
  if (s.MergeDims(classes.dim(1), num_true).ok()) return OkStatus();
  return InvalidArgumentError(
      StrCat("true_classes must have num_true columns, ", num_true, ", is ", classes.ToString()));
}

Status SamplerShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckTrueClasses(s));
  const PartialShape sampled({s.attr<int64_t>("num_sampled")});
  const int64_t batch = s.input(0).has_rank() ? s.input(0).dim(0) : kUnknown;
  s.set_output(0, sampled);
  s.set_output(1, PartialShape({batch, s.attr<int64_t>("num_true")}));
  s.set_output(2, sampled);
  return OkStatus();
}

Status HitsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckTrueClasses(s));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  for (int i = 0; i < 3; ++i) s.set_output(i, PartialShape({kUnknown}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> CandidateSamplingOps() {
  const auto sampler = [](std::string name, std::string how) {
    return OpDef{.name = std::move(name),
                 .summary = "Draws classes, " + how + ", and gives how often each is expected.",
                 .infer_shapes = SamplerShape,
                 .gradient = NotDifferentiable};
  };
  return {
      sampler("UniformCandidateSampler", "all equally often"),
      sampler("LogUniformCandidateSampler", "the first ones more often"),
      sampler("LearnedUnigramCandidateSampler", "as often as they were true classes before"),
      sampler("ThreadUnsafeUnigramCandidateSampler", "as often as they were true classes before"),
      sampler("FixedUnigramCandidateSampler", "as often as a list or a file says"),
      sampler("AllCandidateSampler", "each of them once"),
      {.name = "ComputeAccidentalHits",
       .summary = "Gives where sampled classes are true ones.",
       .infer_shapes = HitsShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
