// Replicas that train in step with one another (ops/training/sync_replicas.h): the group in which they leave
// their gradients, and what steps do with it.
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

Status IdentityShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  s.set_output(0, PartialShape({3}));
  return OkStatus();
}

// Inputs: a handle, an identity; a mark comes out, if anything.
Status ReplicaShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape identity, s.WithRank(1, 1));
  if (!identity.IsCompatibleWith(PartialShape({3}))) {
    return InvalidArgumentError(
        StrCat("identity must be a rank, a life and a mark, is ", identity.ToString()));
  }
  if (s.num_outputs() > 0) s.set_output(0, Shape());
  return OkStatus();
}

Status AggregateShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(ReplicaShape(s));
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
  const auto& shapes = s.attr<std::vector<PartialShape>>("shapes");
  if (static_cast<int>(shapes.size()) + 1 != s.num_outputs()) {
    return InvalidArgumentError(
        StrCat("there are ", s.num_outputs() - 1, " tensors and ", shapes.size(), " shapes"));
  }
  for (size_t i = 0; i < shapes.size(); ++i) s.set_output(static_cast<int>(i) + 1, shapes[i]);
  return OkStatus();
}

// Inputs: a handle, a number.
Status NumberShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return s.WithRank(1, 0).status();
}

Status AwaitedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  s.set_output(0, Shape());
  s.set_output(1, Shape());
  return OkStatus();
}

Status ResetShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(ReplicaShape(s));
  return s.WithRank(2, 0).status();
}

Status MarksShape(ShapeInference& s) {
  for (int i = 0; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

OpDef Stateful(OpDef def) {
  def.is_stateful = true;
  def.gradient = NotDifferentiable;
  return def;
}

}  // namespace

std::vector<OpDef> ReplicasOps() {
  return {
      Stateful(
          {.name = "WeirReplicaGroup",
           .summary = "Gives the handle of a group of replicas that train in step with one another.",
           .outputs = {"handle: resource"},
           .attrs = {"dtypes: list(type) >= 1", "shapes: list(shape) >= 1", "are_sparse: list(bool) >= 1",
                     "num_replicas: int >= 1", "replicas_to_aggregate: int >= 1",
                     "order: {'RANK', 'ARRIVAL'} = 'RANK'", "on_loss: {'SHRINK', 'WAIT', 'FAIL'} = 'SHRINK'",
                     "min_replicas: int >= 0 = 0", "container: string = ''", "shared_name: string = ''"},
           .infer_shapes = ScalarShape}),
      Stateful({.name = "WeirReplicaIdentity",
                .summary =
                    "Gives the rank of its task as a replica, the given number of its life, and the mark "
                    "that it was told last.",
                .inputs = {"life: int64"},
                .outputs = {"identity: int64"},
                .infer_shapes = IdentityShape}),
      Stateful(
          {.name = "WeirReplicaNote",
           .summary = "Keeps the mark that all groups have told a replica, for its WeirReplicaIdentity node.",
           .inputs = {"marks: N * int64"},
           .attrs = {"N: int >= 1", "identity: string"},
           .infer_shapes = MarksShape}),
      Stateful({.name = "WeirReplicaStay",
                .summary = "Keeps a replica in its group; waits until it leaves. A cancelled one is lost.",
                .inputs = {"handle: resource", "identity: int64"},
                .infer_shapes = ReplicaShape}),
      Stateful(
          {.name = "WeirReplicaJoin",
           .summary = "Waits until a replica is in its group and the chief has begun; gives the step's mark.",
           .inputs = {"handle: resource", "identity: int64"},
           .outputs = {"mark: int64"},
           .infer_shapes = ReplicaShape}),
      Stateful(
          {.name = "WeirReplicaContribute",
           .summary = "Leaves the gradients of a replica; waits until the step is over, and gives the next.",
           .inputs = {"handle: resource", "identity: int64", "gradients: T"},
           .outputs = {"step: int64"},
           .attrs = {"T: list(type) >= 1"},
           .infer_shapes = ReplicaShape}),
      Stateful({.name = "WeirReplicaAggregate",
                .summary =
                    "Waits for the means of the gradients of enough replicas. The last update's number "
                    "again gives the same means.",
                .inputs = {"handle: resource", "identity: int64", "update: int64"},
                .outputs = {"mark: int64", "gradients: T"},
                .attrs = {"T: list(type) >= 1", "shapes: list(shape) >= 1"},
                .infer_shapes = AggregateShape}),
      Stateful({.name = "WeirReplicaRelease",
                .summary = "Ends a step: the aggregate of this mark has been applied.",
                .inputs = {"handle: resource", "mark: int64"},
                .infer_shapes = NumberShape}),
      Stateful({.name = "WeirReplicaReset",
                .summary = "Begins a group anew at a global step: what replicas have left there is dropped.",
                .inputs = {"handle: resource", "identity: int64", "global_step: int64"},
                .infer_shapes = ResetShape}),
      Stateful({.name = "WeirReplicaLeave",
                .summary =
                    "Takes a replica out of its group: it stops (a loss), has come to its end and stays "
                    "(FINISH) or goes (END), or closes the group.",
                .inputs = {"handle: resource", "identity: int64"},
                // PAUSE and RESUME are of its driver alone.
                .attrs = {"why: {'STOP', 'FINISH', 'END', 'CLOSE', 'PAUSE', 'RESUME'}"},
                .infer_shapes = ReplicaShape}),
      Stateful({.name = "WeirReplicaAwaited",
                .summary = "Says whom the present step of a group waits for; empty while nobody waits.",
                .inputs = {"handle: resource"},
                .outputs = {"mark: int64", "awaited: string"},
                .infer_shapes = AwaitedShape}),
  };
}

}  // namespace weir
