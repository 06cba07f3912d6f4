// Maps from tensors to tensors, the values of variants.
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

// A map, or its size, or whether it has a key: a scalar, where all that comes in as a map is one.
Status MapShape(ShapeInference& s) {
  if (s.num_inputs() > 0) WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return ScalarShape(s);
}

// The map knows what its keys and values are.
Status OfMapShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  s.set_output(0, PartialShape());
  return OkStatus();
}

// A map of gradients has the keys that were looked up.
Status LookupGradient(GradientContext& g) {
  g.set_input_grad(0, g.Add("TensorMapInsert", {g.Add("EmptyTensorMap", {}), g.input(1), g.grad(0)}));
  return OkStatus();
}

// The value gets what its key has in the map of gradients, or zeros; the map before it all else.
Status InsertGradient(GradientContext& g) {
  const Output key = g.input(1), value = g.input(2), gradients = g.grad(0);
  if (!gradients) return OkStatus();
  const Output has_key = g.Add("TensorMapHasKey", {gradients, key});
  Node* const map = g.graph().AddNode("Switch", {gradients, has_key});
  Node* const zeros = g.graph().AddNode("Switch", {g.Add("ZerosLike", {value}), has_key});
  if (map == nullptr || zeros == nullptr) return OkStatus();
  const Output with_key = map->output(1), without_key = map->output(0);
  const Output found = g.Add("TensorMapLookup", {with_key, key}, {{"value_dtype", value.dtype()}});
  const Output rest = g.Add("TensorMapErase", {with_key, key}, {{"value_dtype", value.dtype()}});
  g.set_input_grad(0, g.Add("Merge", {std::vector<Output>{without_key, rest}}));
  g.set_input_grad(2, g.Add("Merge", {std::vector<Output>{zeros->output(0), found}}));
  return OkStatus();
}

OpDef Of(std::string name, std::string summary, ShapeFunction infer_shapes, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = gradient};
}

}  // namespace

std::vector<OpDef> TensorMapsOps() {
  return {
      Of("EmptyTensorMap", "Gives a map without keys.", MapShape, NotDifferentiable),
      Of("TensorMapSize", "Gives the number of keys of the map.", MapShape, NotDifferentiable),
      Of("TensorMapInsert", "Gives the map with the value at the key, in place of any that was there.",
         MapShape, InsertGradient),
      Of("TensorMapLookup", "Gives the value at the key; an error when there is none.", OfMapShape,
         LookupGradient),
      Of("TensorMapErase", "Gives the map without the key; an error when it has no such key.", MapShape,
         [](GradientContext& g) -> Status {
           g.set_input_grad(0, g.grad(0));
           return OkStatus();
         }),
      Of("TensorMapHasKey", "Says whether the map has the key.", MapShape, NotDifferentiable),
      Of("TensorMapStackKeys", "Gives the keys of the map, which have one shape, as rows of one tensor.",
         OfMapShape, NotDifferentiable),
  };
}

}  // namespace weir
